package cni

import "fmt"

// Network is a bridge whose address the node itself holds, so that tests reach pods by IP. There is
// no masquerading, because that would need iptables.
type Network struct {
	// Name of the network, and of its Bridge on this machine.
	Name, Bridge string
	// Leases is the folder of the addresses in use, and Subnet the range they come from.
	Leases, Subnet string
}

// Conflist returns the text for a *.conflist file in a runtime's folder of networks.
func (n Network) Conflist() string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": %q,
  "plugins": [{
    "type": "bridge",
    "bridge": %q,
    "isGateway": true,
    "ipMasq": false,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "dataDir": %q,
      "ranges": [[{"subnet": %q}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`, n.Name, n.Bridge, n.Leases, n.Subnet)
}
