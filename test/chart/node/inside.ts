/** Releases on a node: runs in the namespaces that cluster.test.ts makes. */
import pg from 'pg'
import t, { type Test } from 'tap'
import { startPostgres } from '../../support/postgres.ts'
import { startRedis } from '../../support/redis.ts'
import { startLimit, until } from '../../support/until.ts'
import { startKeptLoad, startLoad } from '../cluster/load.ts'
import { nodeAddress, startNode } from '../cluster/node.ts'
import { relay } from '../cluster/relay.ts'
import { common, type Pod, place } from '../cluster/release.ts'
import { chart } from '../helm.ts'
import { imageAlone } from './alone.ts'
import { suppliersFrom } from './suppliers-from.ts'

const node = await startNode(process.env['BIDWEIR_IMAGES']!, process.env['BIDWEIR_CGROUP']!)
t.teardown(() => node.close())
const { api } = node

t.test('the image alone, as `docker run -p` starts it', (t) => imageAlone(t, node))

t.test('one pod, as `helm install` leaves it', async (t) => {
  const { at: apiPath, run, helm, all, pods, url } = await place(node, 'one')
  await helm(t, 'install', chart, '--wait', ...common)

  t.test('`helm test` bids and wins', async (t) => {
    const said = await helm(t, 'test', '--logs')
    for (const step of ['ready', 'token', 'suppliers', 'bid', 'win'])
      t.match(said, new RegExp(`^ok ${step}$`, 'm'))
  })

  t.test('a change that needs no restart is reloaded, and the pod goes on', async (t) => {
    const before = await pods()
    const metrics = `${await url('admin')}/metrics`
    const reloads = async () => {
      const text = await (await fetch(metrics)).text()
      return Number(/^bidweir_config_reloads_total\{result="taken"\} (\d+)/m.exec(text)?.[1] ?? 0)
    }
    const earlier = await reloads()
    await helm(t, 'upgrade', chart, '--wait', ...common, '--set', 'config.proxy.maxInFlight=1000')
    await until(async () => (await reloads()) > earlier, { limit: startLimit })
    const after = await pods()
    t.same(
      after.map(({ metadata }) => metadata.uid),
      before.map(({ metadata }) => metadata.uid),
    )
    t.match(after[0]!.status.containerStatuses, [{ restartCount: 0 }, { restartCount: 0 }])
  })

  t.test('what `bidweir check` refuses never comes to the pods', async (t) => {
    const before = await pods()
    const wrong = ['--set', 'config.proxy.tls.cert=/none,config.proxy.tls.key=/none']
    const { ok, text, error } = await run('upgrade', chart, '--wait', ...common, ...wrong)
    t.notOk(ok)
    t.match(error, /pre-upgrade hooks failed/)
    // the log of the hook, which helm prints
    t.match(text + error, /bidweir\.yaml:\d+: proxy\.tls\.key: found a string, allowed: /)
    t.same(
      (await pods()).map(({ metadata }) => metadata.uid),
      before.map(({ metadata }) => metadata.uid),
    )
    await helm(t, 'upgrade', chart, '--wait', ...common)
    await helm(t, 'test')
  })

  t.test('a pod that is killed comes again', async (t) => {
    const [{ metadata }] = (await pods()) as [Pod]
    await api('DELETE', `${apiPath}/pods/${metadata.name}?gracePeriodSeconds=0`)
    const ready = async () => {
      const [pod, ...more] = await pods()
      const statuses = pod?.status.containerStatuses ?? []
      return (
        more.length === 0 &&
        pod !== undefined &&
        pod.metadata.uid !== metadata.uid &&
        statuses.length > 0 &&
        statuses.every(({ ready }) => ready)
      )
    }
    await until(ready, { what: 'another pod', limit: startLimit })
    await helm(t, 'test')
  })

  t.test('uninstall leaves nothing that runs', async (t) => {
    await helm(t, 'uninstall', '--wait')
    const left = async () =>
      (await all()).filter(({ metadata }) => !metadata.name.endsWith('-test'))
    await until(async () => (await left()).length === 0, { limit: startLimit })
  })
})

t.test('suppliers of ConfigMaps change without a restart', (t) => suppliersFrom(t, node))

t.test('three pods on PostgreSQL and Redis', async (t) => {
  const postgres = await startPostgres()
  const redis = await startRedis()
  t.teardown(() => redis.stop().then(() => postgres.close()))
  const stores = [new URL(postgres.url), new URL(redis.url)]
  for (const store of stores) {
    store.port = String(await relay(t, Number(store.port)))
    store.hostname = nodeAddress
  }
  const values = [
    ...common,
    ...['--set', `store.database.url=${stores[0]},store.redis.url=${stores[1]}`],
    // a bid without a notice is soon a loss
    ...['--set', 'config.opd.attributionWindow=10s'],
  ]
  const three = [...values, '--set', 'replicaCount=3']
  const { at: apiPath, helm, pods, settled, url, curves, requests } = await place(node, 'three')
  await helm(t, 'install', chart, '--wait', ...three)
  await settled(3)
  const cold = (await curves())[0]!
  const [proxy, notices] = [await url('proxy'), await url('notices')]
  const load = () => startLoad(`${proxy}/bid/demo`, `${notices}/opd/imp`, 20)
  /** Every win that was acknowledged is in the ledger. */
  const kept = async (t: Test, wins: Set<string>) => {
    const client = new pg.Client(postgres.url)
    await client.connect()
    const { rows } = await client.query('select bid_id from ledger_days')
    await client.end()
    const ledger = new Set(rows.map((row) => row.bid_id as string))
    t.same(
      [...wins].filter((id) => !ledger.has(id)),
      [],
      'acknowledged wins that are lost',
    )
  }
  /** Carries load while something happens, and some requests longer. */
  const under = async (t: Test, what: () => Promise<unknown>) => {
    const traffic = load()
    await until(() => traffic.wins.size > 20, { limit: startLimit })
    await what()
    const enough = traffic.bids + 50
    await until(() => traffic.bids > enough, { limit: startLimit })
    await traffic.stop()
    t.comment(
      `${traffic.bids} bids, ${traffic.wins.size} wins, ${traffic.failures.length} failures`,
    )
    await kept(t, traffic.wins)
    return traffic.failures
  }

  t.test('`helm test`', async (t) => {
    t.match(await helm(t, 'test', '--logs'), /^ok win$/m)
  })

  t.test('a rolling update fails no request and loses no win', async (t) => {
    const before = await pods()
    const failures = await under(t, async () => {
      await helm(t, 'upgrade', chart, '--wait', ...three, '--set', 'podAnnotations.update=two')
      await settled(3)
    })
    t.same(failures, [])
    const old = before.map(({ metadata }) => metadata.uid)
    t.notOk(
      (await pods()).some(({ metadata }) => old.includes(metadata.uid)),
      'all pods are new',
    )
  })

  t.test('a rollout of every pod learns nothing anew', async (t) => {
    const apart = (one: number[], other: number[]) =>
      Math.max(...one.map((win, index) => Math.abs(win - other[index]!)))
    const traffic = load()
    const learned = async () => (await curves()).every((curve) => apart(curve, cold) > 0.2)
    await until(learned, { what: 'three pods that have learned', limit: startLimit })
    await traffic.stop()
    // no traffic from here on: what new pods know is from the pods before them
    const agreed = async () => {
      const [one = [], ...others] = await curves()
      return others.length === 2 && others.every((other) => apart(one, other) <= 0.03)
    }
    await until(agreed, { what: 'three pods that agree', limit: startLimit })
    const before = await pods()
    const [curve = []] = await curves()
    await helm(t, 'upgrade', chart, '--wait', ...three, '--set', 'podAnnotations.update=three')
    await settled(3)
    const old = before.map(({ metadata }) => metadata.uid)
    t.notOk((await pods()).some(({ metadata }) => old.includes(metadata.uid)))
    const after = await curves()
    t.equal(after.length, 3)
    for (const win of after) {
      const [change, learnt] = [apart(win, curve), apart(win, cold)]
      t.ok(change <= 0.1, `as before the rollout: ${change.toFixed(3)}`, { cold: learnt })
    }
  })

  t.test('fewer pods, and more again, fail no request and lose no win', async (t) => {
    const scale = (count: number) => async () => {
      await helm(t, 'upgrade', chart, '--wait', ...values, '--set', `replicaCount=${count}`)
      await settled(count)
    }
    t.same(await under(t, scale(1)), [], 'three to one')
    t.same(await under(t, scale(3)), [], 'one to three')
  })

  t.test('kept connections reach new pods within their age', async (t) => {
    const aged = ['--set', 'config.proxy.maxConnectionAge=10s,restartOnConfigChange=true']
    const scale = async (count: number) => {
      await helm(
        t,
        'upgrade',
        chart,
        '--wait',
        ...values,
        ...aged,
        '--set',
        `replicaCount=${count}`,
      )
      await settled(count)
    }
    await scale(1)
    const traffic = startKeptLoad(`${proxy}/bid/demo`, 8)
    await until(() => traffic.bids > 50, { limit: startLimit })
    await scale(3)
    await until(async () => (await requests()).filter((count) => count > 0).length === 3)
    await traffic.stop()
    t.same(traffic.failures, [])
  })

  t.test('a pod that is killed takes no acknowledged win with it', async (t) => {
    const failures = await under(t, async () => {
      const [{ metadata }] = (await pods()) as [Pod]
      await api('DELETE', `${apiPath}/pods/${metadata.name}?gracePeriodSeconds=0`)
      await settled(3)
    })
    t.comment(failures.join('\n'))
    t.same(await under(t, async () => {}), [], 'afterwards')
  })

  t.test('an install on the database of before finds its users and keys', async (t) => {
    await helm(t, 'uninstall', '--wait')
    await helm(t, 'install', chart, '--wait', ...three)
    t.match(await helm(t, 'test', '--logs'), /^ok token$/m)
  })
})
