/** The limits of a node are divided among its processes without loss (CONTRACT 2). */
import t from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { dividedConfig, dividedRoute, shareOf, workerCount } from '../../../service/limits.ts'

const places = (count: number) => Array.from({ length: count }, (_, index) => ({ index, count }))
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)

t.test('shares add up to the limit, and no process has 0', async (t) => {
  for (const limit of [7, 8, 20_000, 16_384])
    for (const count of [1, 2, 3, 7])
      t.equal(sum(places(count).map((place) => shareOf(limit, place))), limit)
  t.same(
    places(3).map((place) => shareOf(1, place)),
    [1, 1, 1],
  )
})

t.test('all limits of the listener and of a supplier are divided', async (t) => {
  const config = proxySchema.parse({ maxConnections: 11, maxHeldBytes: '3MiB', workers: 2 })
  const [one, two] = places(2).map((place) => dividedConfig(config, place)) as [
    typeof config,
    typeof config,
  ]
  for (const key of ['maxConnections', 'maxInFlight', 'maxInFlightPerSupplier'] as const)
    t.equal(one[key] + two[key], config[key], key)
  t.equal(Number(one.maxHeldBytes) + Number(two.maxHeldBytes), 3 * 1024 ** 2)
  const auto = proxySchema.parse({ workers: 2 })
  t.type(dividedConfig(auto, { index: 1, count: 2 }).maxHeldBytes, 'number')
  const route = { ...routeSchema.parse({ maxInFlight: 5 }), id: 'acme' }
  t.same(
    places(2).map((place) => dividedRoute(route, place).maxInFlight),
    [3, 2],
  )
  const adaptive = { ...route, maxInFlight: 'auto' as const }
  t.equal(dividedRoute(adaptive, { index: 0, count: 2 }), adaptive)
  t.equal(dividedConfig(auto, { index: 0, count: 1 }), auto, 'one process has all')
})

t.test('auto is one process for each core', async (t) => {
  t.equal(workerCount(proxySchema.parse({})), 1)
  t.ok(workerCount(proxySchema.parse({ workers: 'auto' })) >= 1)
  t.throws(() => proxySchema.parse({ workers: 0 }))
  t.throws(() => proxySchema.parse({ workers: 65 }))
})
