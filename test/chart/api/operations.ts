/** A part of admission.test.ts: operations of helm on a real API server: what each keeps, and what it changes. */
import { join } from 'node:path'
import type { Test } from 'tap'
import { type ControlPlane, restricted, unchecked } from '../cluster/control-plane.ts'
import { chart } from '../helm.ts'

interface Listed {
  items: { metadata: { name: string; uid: string }; data?: Record<string, string> }[]
}

export async function operations(t: Test, plane: ControlPlane) {
  const { api } = plane

  /** A namespace of its own, helm in it, and what it holds. */
  const place = async (namespace: string) => {
    await restricted(plane, namespace)
    const apiPath = `/api/v1/namespaces/${namespace}`
    const helm = async (t: Test, ...args: string[]) => {
      // No node, so no Job ends: test/chart/node has the hooks.
      const more = ['--no-hooks', ...(/^(install|upgrade)$/.test(args[0]!) ? unchecked : [])]
      const { ok, error } = await plane.helm(...args, '--namespace', namespace, ...more)
      t.ok(ok, error)
      t.notMatch(error, /warning/i, args[0]!)
    }
    const secrets = async () => {
      const { body } = await api('GET', `${apiPath}/secrets?fieldSelector=type=Opaque`)
      const items = (body as Listed).items.map(
        ({ metadata, data }) => [metadata.name, data] as const,
      )
      return Object.fromEntries(items) as Record<string, Record<string, string>>
    }
    const names = async (path: string) => {
      const { body } = await api('GET', path.replace('*', `namespaces/${namespace}`))
      return (body as Listed).items.map(({ metadata }) => metadata.name)
    }
    return {
      at: apiPath,
      helm,
      secrets,
      names,
      deployments: `/apis/apps/v1/namespaces/${namespace}/deployments`,
    }
  }
  const rotated = ['--set', 'contextKeys[0].id=2,contextKeys[1].id=1']

  t.test('upgrade, rotation, rollback and rotation again keep every key', async (t) => {
    const { helm, secrets } = await place('rotation')
    await helm(t, 'install', 'bids', chart)
    const first = await secrets()
    t.same(Object.keys(first), ['bids-bidweir-admin-password', 'bids-bidweir-context-key-1'])
    await helm(t, 'upgrade', 'bids', chart, '--set', 'suppliers.a.endpoints[0]=https://a.example/')
    t.same(await secrets(), first)
    await helm(t, 'upgrade', 'bids', chart, ...rotated)
    const second = await secrets()
    t.match(second, first)
    t.ok(second['bids-bidweir-context-key-2'])
    await helm(t, 'rollback', 'bids', '1')
    t.same(await secrets(), second, 'after the rollback')
    await helm(t, 'upgrade', 'bids', chart, ...rotated)
    t.same(await secrets(), second, 'after the second rotation')
    await helm(t, 'upgrade', 'bids', chart, '--reuse-values', '--set', 'config.location=eu-west')
    t.same(await secrets(), second, 'with the values of before')
  })

  t.test('uninstall leaves keys, password and volume, and the next install has them', async (t) => {
    const { at: apiPath, helm, secrets, names, deployments } = await place('again')
    const values = ['--set', 'persistence.enabled=true']
    await helm(t, 'install', 'bids', chart, ...values, ...rotated)
    const before = await secrets()
    const volume = async () =>
      (
        (await api('GET', `${apiPath}/persistentvolumeclaims/bids-bidweir`))
          .body as Listed['items'][0]
      ).metadata.uid
    const claimed = await volume()
    await helm(t, 'uninstall', 'bids')
    t.same(await secrets(), before)
    for (const path of [
      `${apiPath}/configmaps`,
      `${apiPath}/services`,
      `${apiPath}/serviceaccounts`,
      deployments,
    ])
      t.same(await names(path), [], path)
    await helm(t, 'install', 'bids', chart, ...values, ...rotated)
    t.same(await secrets(), before)
    t.equal(await volume(), claimed)
  })

  t.test('an upgrade leaves to the autoscaler what it decided', async (t) => {
    const { helm, deployments } = await place('scaled')
    await plane.defineMore()
    const values = ['--values', join(chart, 'ci/autoscaled-values.yaml')]
    await helm(t, 'install', 'bids', chart, ...values)
    const scale = `${deployments}/bids-bidweir/scale`
    await api('PATCH', scale, { spec: { replicas: 7 } }, 'application/merge-patch+json')
    await helm(t, 'upgrade', 'bids', chart, ...values, '--set', 'config.location=eu-west')
    t.match((await api('GET', scale)).body, { spec: { replicas: 7 } })
  })

  t.test('an upgrade that turns autoscaling on keeps the number of pods', async (t) => {
    const { helm, deployments } = await place('handed-over')
    const stores = ['--set', 'store.database.url=postgres://u@db/x,store.redis.url=redis://cache']
    await helm(t, 'install', 'bids', chart, ...stores, '--set', 'replicaCount=5')
    const { metadata } = (await api('GET', `${deployments}/bids-bidweir`)).body
    for (const [asked, kept] of [
      [2, 5],
      [6, 6],
    ]) {
      const scaling = `autoscaling.enabled=true,autoscaling.minReplicas=${asked}`
      await helm(t, 'upgrade', 'bids', chart, ...stores, '--set', scaling)
      const scale = (await api('GET', `${deployments}/bids-bidweir/scale`)).body
      t.match(scale, { spec: { replicas: kept } })
    }
    const { generation } = (await api('GET', `${deployments}/bids-bidweir`)).body.metadata
    t.equal(generation, metadata.generation + 1, 'the number of pods was never another one')
  })

  t.test('a change of what only a restart takes over is a new revision of pods', async (t) => {
    const { helm, deployments } = await place('restart')
    const generation = async () =>
      (await api('GET', `${deployments}/bids-bidweir`)).body.metadata.generation as number
    await helm(t, 'install', 'bids', chart)
    const first = await generation()
    await helm(t, 'upgrade', 'bids', chart, '--set', 'config.proxy.maxInFlight=1000')
    t.equal(await generation(), first, 'reloaded')
    await helm(t, 'upgrade', 'bids', chart, '--set', 'config.location=eu-west')
    t.equal(await generation(), first + 1, 'restarted')
  })

  t.test('a context key never changes, whoever writes its Secret', async (t) => {
    const { at: apiPath, helm, secrets } = await place('immutable')
    await helm(t, 'install', 'bids', chart)
    const before = await secrets()
    // as a tool that renders without a cluster: a new key under the same id
    const key = Buffer.from(Buffer.alloc(32, 5).toString('base64url')).toString('base64')
    const path = `${apiPath}/secrets/bids-bidweir-context-key-1`
    const patch = { data: { 'context-key-1': key } }
    const { status, body } = await api('PATCH', path, patch, 'application/merge-patch+json')
    t.equal(status, 422)
    t.match(body.message, /immutable/)
    const secret = `contextKeys[0].id=1,contextKeys[0].secret=${Buffer.alloc(32, 5).toString('base64url')}`
    const upgrade = ['upgrade', 'bids', chart, '--namespace', 'immutable', '--no-hooks']
    const { ok, error } = await plane.helm(...upgrade, '--set', secret)
    t.notOk(ok)
    t.match(error, /contextKeys: key 1 has another secret in the cluster/)
    t.same(await secrets(), before)
  })

  t.test('a wrong value is refused before anything changes', async (t) => {
    const { at: apiPath, helm } = await place('values')
    await helm(t, 'install', 'bids', chart)
    const wrong = ['--set', 'suppliers.a.endpoints[0]=https://a.example/,suppliers.a.timout=5s']
    const { ok, error } = await plane.helm(
      'upgrade',
      'bids',
      chart,
      '--namespace',
      'values',
      ...wrong,
    )
    t.notOk(ok)
    t.match(error, /timout/)
    const { body } = await api('GET', `${apiPath}/secrets?labelSelector=owner=helm`)
    t.equal(body.items.length, 1, 'no revision was made')
  })
}
