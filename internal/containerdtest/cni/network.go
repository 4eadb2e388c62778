package cni

import "fmt"

// Network is a bridge whose address the node itself holds, so that tests reach pods by IP. There is
// no masquerading: that would need iptables.
type Network struct {
	// Name of the network, and of its Bridge on this machine.
	Name, Bridge string
	// Leases is the folder of the addresses that are taken, and Subnet what they are from.
	Leases, Subnet string
}

// Conflist is the text of a file *.conflist in a runtime's folder of networks.
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
