package credentials_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/kube/credentials"
)

// A plugin for the registry of a cloud, here a script, and what the engine hears of it.
func Example() {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.WriteFile(filepath.Join(dir, "cloud"), []byte(`#!/bin/sh
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse",
  "cacheKeyType":"Registry","cacheDuration":"1h","auth":{"registry.cloud.example":{"username":"node","password":"..."}}}'
`), 0o700)
	_ = os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(`
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  matchImages: ["*.cloud.example"]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`), 0o600)
	source, err := credentials.New(credentials.Options{Config: filepath.Join(dir, "config.yaml"), BinDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Config.Pods.ImagePull.Credentials = source; the engine then asks:
	found, err := source.Credentials(context.Background(), &v1.Pod{}, "registry.cloud.example/app:1")
	fmt.Println(len(found), found[0].Username, err)
	// Output: 1 node <nil>
}
