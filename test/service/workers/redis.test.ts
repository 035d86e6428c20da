/** Two nodes of two processes each on one Redis and one PostgreSQL: any process decides, any node is notified. */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { echoSupplier, sumOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'
import { startWorkers } from '../../support/workers.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

t.test('two nodes with workers', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const [supplier, redis, postgres] = await Promise.all([
    echoSupplier(),
    startRedis(),
    startPostgres(),
  ])
  const more = `location: east\nstore: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`
  const start = () => startWorkers({ endpoint: supplier.url, auth: 'none', more })
  const one = await start()
  const two = await start()
  t.teardown(async () => {
    await Promise.all([one.stop('SIGKILL'), two.stop('SIGKILL')])
    await Promise.all([supplier.close(), redis.stop(), postgres.close()])
  })
  const ids: string[] = []
  await until(async () => {
    const { id } = await one.bid({ id: `bid-${ids.length}`, price: 2 })
    ids.push(id)
    return (await one.requestsByWorker()).every((requests) => requests >= 5)
  })
  for (const id of ids) {
    await until(() => redis.holds(id))
    const { body } = await two.notify({ bid_id: id, price: '0.5' })
    t.match(body, { status: 'attributed', by: 'bid_log' })
  }
  for (const node of [one, two])
    await until(async () => {
      const metrics = await node.metrics()
      return (
        sumOf(metrics, 'bidweir_live_nodes') === 2 &&
        // One leads, the other follows it.
        sumOf(metrics, 'bidweir_model_deltas_total', 'result="merged"') +
          sumOf(metrics, 'bidweir_model_shared_total', 'result="curve_adopted"') >
          0
      )
    })
  t.equal(sumOf(await one.metrics(), 'bidweir_redis_written_total'), ids.length)
})
