/** A release that the autoscaler scales: runs in the namespaces that autoscaling.test.ts makes. */
import t from 'tap'
import { startPostgres } from '../../support/postgres.ts'
import { startRedis } from '../../support/redis.ts'
import { startLimit, until } from '../../support/until.ts'
import { serveMetrics } from '../cluster/autoscaling.ts'
import { startLoad } from '../cluster/load.ts'
import { nodeAddress, startNode } from '../cluster/node.ts'
import { relay } from '../cluster/relay.ts'
import { common, place } from '../cluster/release.ts'
import { chart } from '../helm.ts'

interface AutoscalerMetric {
  type: string
  resource?: { name: string; current: { averageValue: string } }
  pods?: { metric: { name: string }; current: { averageValue: string } }
}

t.test('requests a second move the number of pods, and none is lost', async (t) => {
  const node = await startNode(process.env['BIDWEIR_IMAGES']!, process.env['BIDWEIR_CGROUP']!)
  t.teardown(() => node.close())
  t.teardown(await serveMetrics(node))
  const postgres = await startPostgres()
  const redis = await startRedis()
  t.teardown(() => redis.stop().then(() => postgres.close()))
  const stores = [new URL(postgres.url), new URL(redis.url)]
  for (const store of stores) {
    store.port = String(await relay(t, Number(store.port)))
    store.hostname = nodeAddress
  }
  const { helm, settled, url } = await place(node, 'scaled')
  const autoscaling = {
    ...{ enabled: true, minReplicas: 1, maxReplicas: 3, cpu: '4', requestsPerSecond: 8 },
    behavior: {
      scaleDown: {
        stabilizationWindowSeconds: 0,
        policies: [{ type: 'Pods', value: 2, periodSeconds: 15 }],
      },
    },
  }
  await helm(
    t,
    'install',
    ...[chart, '--wait', ...common, '--set-json', `autoscaling=${JSON.stringify(autoscaling)}`],
    ...['--set', `store.database.url=${stores[0]},store.redis.url=${stores[1]}`],
  )
  const autoscaler = '/apis/autoscaling/v2/namespaces/scaled/horizontalpodautoscalers/bids-bidweir'
  const measured = async () => {
    const { body } = await node.api('GET', autoscaler)
    return (body.status?.currentMetrics ?? []) as AutoscalerMetric[]
  }
  const scaledTo = (count: number) =>
    settled(count).catch(async (error: Error) => {
      const { body } = await node.api('GET', autoscaler)
      throw new Error(`${error.message}\n${JSON.stringify(body.status)}`)
    })
  const [proxy, notices] = [await url('proxy'), await url('notices')]
  const load = (perSecond: number) =>
    startLoad(`${proxy}/bid/demo`, `${notices}/opd/imp`, perSecond)

  const little = load(2)
  await scaledTo(1)
  await until(
    async () => {
      const metrics = await measured()
      return (
        metrics.some(({ resource }) => resource?.name === 'cpu') &&
        metrics.some(({ pods }) => pods?.metric.name === 'bid_requests_per_second')
      )
    },
    { what: 'the CPU by metrics-server and the requests by prometheus-adapter', limit: startLimit },
  )
  const much = load(24)
  await scaledTo(3)
  t.pass('three pods under load')
  const enough = much.bids + 200
  await until(() => much.bids > enough, { limit: startLimit })
  await much.stop()
  await scaledTo(1)
  t.pass('one pod after it')
  await little.stop()
  t.comment(`${much.bids + little.bids} bids, ${much.wins.size + little.wins.size} wins`)
  t.same([...much.failures, ...little.failures], [])
  t.ok(much.wins.size > 20)
})
