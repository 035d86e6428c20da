/** A node that runs pods, for a process that has network and mount namespaces of its own (test/chart/node). */
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { authority } from '../../support/authority.ts'
import { startLimit, until } from '../../support/until.ts'
import { type ControlPlane, startControlPlane } from './control-plane.ts'
import { serveDns } from './dns.ts'
import { type Running, run } from './kubernetes.ts'

export const nodeAddress = '10.200.0.1'
const pods = '10.244.0.0/24'

const network = `
  mount --make-rprivate /
  for folder in /run /var/log /var/lib/kubelet /var/lib/cni; do mkdir -p $folder; mount -t tmpfs tmpfs $folder; done
  # kubelet sets them, for the whole machine: it gets copies
  for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p /run/sys/$(dirname $key); cat /proc/sys/$key > /run/sys/$key; mount --bind /run/sys/$key /proc/sys/$key
  done
  mount --make-rshared /
  ip link set lo up
  ip link add node0 type bridge; ip addr add ${nodeAddress}/24 dev node0; ip link set node0 up
  # a port, or the bridge has no carrier
  ip link add port0 type veth peer name port1; ip link set port0 master node0 up; ip link set port1 up
  ip route add default via 10.200.0.254 dev node0
  sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1`

const containerd = (folder: string) => `
version = 2
root = "${folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE nobody may lower it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "${folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"`

const cni = {
  ...{ cniVersion: '1.0.0', name: 'pods' },
  plugins: [
    {
      ...{ type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, hairpinMode: true },
      ipam: { type: 'host-local', ranges: [[{ subnet: pods }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
  ],
}

const kubelet = (cgroup: string) => ({
  ...{ apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' },
  // Only this process is on its network.
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  ...{ cgroupDriver: 'cgroupfs', cgroupRoot: `/${cgroup}`, failCgroupV1: false, failSwapOn: false },
  ...{ clusterDNS: [nodeAddress], clusterDomain: 'cluster.local' },
  containerRuntimeEndpoint: 'unix:///run/containerd.sock',
  // The disk is the machine's: it may be nearly full.
  imageGCHighThresholdPercent: 100,
  evictionHard: { 'memory.available': '50Mi', 'nodefs.available': '0%', 'imagefs.available': '0%' },
  // A changed ConfigMap is in the pod this much later at most.
  ...{ syncFrequency: '5s', nodeStatusUpdateFrequency: '5s' },
})

/** The API server tells other servers, such as those of metrics, who asks. */
function aggregation(file: (name: string, content: string) => string): string[] {
  const issuer = authority('front proxy')
  if (issuer === null) throw new Error('openssl not found')
  const { cert, key } = issuer.issue('front-proxy')
  return [
    `--requestheader-client-ca-file=${file('front-proxy-ca.pem', issuer.cert)}`,
    `--proxy-client-cert-file=${file('front-proxy.pem', cert)}`,
    `--proxy-client-key-file=${file('front-proxy.key', key)}`,
    ...[
      '--requestheader-username-headers=X-Remote-User',
      '--requestheader-group-headers=X-Remote-Group',
    ],
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
  ]
}

interface ClusterNode extends ControlPlane {
  /** What the programs logged last. */
  logs(): string
}

export async function startNode(images: string, cgroup: string): Promise<ClusterNode> {
  execFileSync('sh', ['-e', '-c', network], { stdio: ['ignore', 'ignore', 'inherit'] })
  const plane = await startControlPlane(nodeAddress, (file) => [
    ...['--allow-privileged=true', '--kubelet-preferred-address-types=InternalIP'],
    ...aggregation(file),
  ])
  const { folder } = plane
  const file = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  mkdirSync(join(folder, 'cni'))
  mkdirSync(join(folder, 'bin'))
  for (const name of ['iptables', 'ip6tables'].flatMap((name) => [
    name,
    `${name}-save`,
    `${name}-restore`,
  ]))
    symlinkSync('/usr/sbin/xtables-legacy-multi', join(folder, 'bin', name))
  file('cni/10-pods.conflist', JSON.stringify(cni))
  const env = {
    ...process.env,
    PATH: `${join(folder, 'bin')}:/usr/sbin:/sbin:${process.env['PATH']}`,
  }
  const running: Running[] = []
  const start = (name: string, ...args: string[]) => {
    const started = run(folder, name, args, env)
    running.push(started)
    return started
  }
  const kubeconfig = `--kubeconfig=${plane.kubeconfig}`

  start('/usr/bin/containerd', '--config', file('containerd.toml', containerd(folder)))
  const ctr = ['--address', '/run/containerd.sock', '--namespace', 'k8s.io', 'images']
  const image = (...args: string[]) => execFileSync('ctr', [...ctr, ...args], { stdio: 'pipe' })
  await until(
    () => {
      try {
        return image('list').length > 0
      } catch {
        return false
      }
    },
    { what: 'a containerd that answers', limit: startLimit },
  )
  for (const name of ['pause', 'bidweir']) image('import', join(images, `${name}.tar`))
  const key = join(folder, 'sa.key')
  start(
    'kube-controller-manager',
    ...[kubeconfig, '--leader-elect=false', `--service-account-private-key-file=${key}`],
    ...['--horizontal-pod-autoscaler-sync-period=5s'],
    ...['--horizontal-pod-autoscaler-initial-readiness-delay=5s'],
  )
  start('kube-scheduler', kubeconfig, '--leader-elect=false')
  start(
    'kubelet',
    ...[kubeconfig, `--config=${file('kubelet.yaml', stringify(kubelet(cgroup)))}`],
    ...['--hostname-override=n1', `--node-ip=${nodeAddress}`, '--root-dir=/var/lib/kubelet'],
  )
  start(
    'kube-proxy',
    ...[kubeconfig, '--proxy-mode=iptables', `--cluster-cidr=${pods}`, '--hostname-override=n1'],
    ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'],
    '--conntrack-tcp-timeout-close-wait=0',
  )
  const closeDns = await serveDns(plane, nodeAddress)
  const logs = () => running.map(({ child, log }) => `${child.spawnfile}\n${log()}`).join('\n')
  const ready = async () => {
    const { body } = await plane.api('GET', '/api/v1/nodes/n1')
    const conditions = (body.status?.conditions ?? []) as { type: string; status: string }[]
    return conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
  }
  await until(ready, { what: 'a node that is ready', limit: startLimit }).catch((error) => {
    throw new Error(`${error.message}\n${logs()}`)
  })
  return {
    ...plane,
    logs,
    // Containers end with the namespace of processes.
    close: async () => {
      closeDns()
      for (const { child } of running) child.kill('SIGKILL')
      await plane.close()
    },
  }
}
