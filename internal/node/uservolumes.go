package node

import (
	"context"
	"fmt"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
)

// Volumes wraps a volume manager, or returns nil for nil. A call that ignores the end of its
// context is left behind: the pod is stopped regardless, and nothing is torn down before a SetUp
// has returned.
func (u Users) Volumes(m pods.VolumeManager) pods.VolumeManager {
	if m == nil {
		return nil
	}
	return &userVolumes{users: u, manager: m, unsure: map[volumeKey]error{}, making: map[types.UID]int{}}
}

type volumeKey struct {
	uid  types.UID
	name string
}

type userVolumes struct {
	users   Users
	manager pods.VolumeManager

	mu sync.Mutex
	// unsure holds the volumes for which the manager did not say whether it handles them.
	unsure map[volumeKey]error
	// making counts the calls of SetUp in progress, by pod.
	making map[types.UID]int
}

var _ pods.VolumeManager = (*userVolumes)(nil)

func (v *userVolumes) call(name string, uid types.UID) foreign.Call {
	return foreign.Call{Kind: problem.Function, Name: "Pods.Volumes." + name, UID: uid, Patience: problem.RemovalLimit}
}

// podCall is a call whose answer depends on the pod's manifest.
func (v *userVolumes) podCall(name string, pod *v1.Pod, volume *v1.Volume) foreign.Call {
	call := v.call(name, pod.UID)
	call.Pod, call.Object, call.About = problem.Of(pod.Namespace, pod.Name, pod.UID), volume.Name, pod
	return call
}

// Handles returns true if the manager does not answer: then its SetUp reports what is wrong, and
// the engine does not make a volume that is not its own.
func (v *userVolumes) Handles(pod *v1.Pod, volume *v1.Volume) bool {
	key := volumeKey{pod.UID, volume.Name}
	answer, err := foreign.Quick(v.users.Calls, v.podCall("Handles", pod, volume),
		nil, func() (bool, error) { return v.manager.Handles(pod, volume), nil })
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.unsure[key] = err
		return true
	}
	delete(v.unsure, key)
	return answer
}

// SetUp makes the volume ready.
func (v *userVolumes) SetUp(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (pods.MountedVolume, error) {
	v.mu.Lock()
	err := v.unsure[volumeKey{pod.UID, volume.Name}]
	delete(v.unsure, volumeKey{pod.UID, volume.Name})
	v.mu.Unlock()
	if err != nil {
		return pods.MountedVolume{}, err
	}
	return foreign.Ask(ctx, v.users.Calls, v.podCall("SetUp", pod, volume),
		foreign.Limits{Join: true}, func(ctx context.Context) (pods.MountedVolume, error) {
			v.make(pod.UID, 1)
			defer v.make(pod.UID, -1)
			return v.manager.SetUp(ctx, pod, volume)
		})
}

// make counts the calls of SetUp in progress.
func (v *userVolumes) make(uid types.UID, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.making[uid] += n; v.making[uid] == 0 {
		delete(v.making, uid)
	}
}

// made returns an error while a SetUp of the pod is in progress.
func (v *userVolumes) made(uid types.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.making[uid] > 0 {
		return fmt.Errorf("the volume manager still sets up a volume of the pod %s", uid)
	}
	return nil
}

// TearDown undoes SetUp.
func (v *userVolumes) TearDown(ctx context.Context, uid types.UID) error {
	if err := v.made(uid); err != nil {
		return err
	}
	v.mu.Lock()
	maps.DeleteFunc(v.unsure, func(k volumeKey, _ error) bool { return k.uid == uid })
	v.mu.Unlock()
	_, err := foreign.Ask(ctx, v.users.Calls, v.call("TearDown", uid), foreign.Limits{Join: true},
		func(ctx context.Context) (struct{}, error) {
			// Until this call returns, however long after its caller has gone, no new life of the
			// pod begins (IN3). A life that tears down its own volumes needs no hold.
			_, release, _ := v.users.Hold(ctx, uid, "tear down volumes")
			defer release()
			return struct{}{}, v.manager.TearDown(ctx, uid)
		})
	return err
}

// Mounted names the volumes that may be mounted.
func (v *userVolumes) Mounted(ctx context.Context, uid types.UID) ([]string, error) {
	if err := v.made(uid); err != nil {
		return nil, err
	}
	return foreign.Ask(ctx, v.users.Calls, v.call("Mounted", uid), foreign.Limits{Join: true},
		func(ctx context.Context) ([]string, error) { return v.manager.Mounted(ctx, uid) })
}

// Objects wraps a source of config maps and secrets, or returns nil for nil. An object that is not
// read within 10 s is not known, and is requested again.
func (u Users) Objects(getter pods.ObjectGetter) pods.ObjectGetter {
	if getter == nil {
		return nil
	}
	return userObjects{u, getter}
}

type userObjects struct {
	users  Users
	getter pods.ObjectGetter
}

var _ pods.ObjectGetter = userObjects{}

func (o userObjects) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return getObject(ctx, o.users, "GetConfigMap", namespace, name, o.getter.GetConfigMap)
}

func (o userObjects) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return getObject(ctx, o.users, "GetSecret", namespace, name, o.getter.GetSecret)
}

// getObject reads an object for one pod. A getter that hangs for one pod is still called for others.
func getObject[T any](
	ctx context.Context, u Users, method, namespace, name string, get func(ctx context.Context, namespace, name string) (T, error),
) (T, error) {
	uid, _ := foreign.PodOf(ctx)
	call := foreign.Call{Kind: problem.Function, Name: "Pods.Objects." + method, UID: uid, Object: namespace + "/" + name, Patience: problem.FunctionLimit}
	return foreign.Ask(ctx, u.Calls, call, foreign.Limits{Wait: problem.FunctionLimit, Join: true},
		func(ctx context.Context) (T, error) { return get(ctx, namespace, name) })
}
