import t from 'tap'
import { spellControl } from '../../opd/state/control.ts'
import { createExchange } from '../../opd/state/exchange.ts'
import type { Keeper } from '../../opd/state/keeper.ts'
import { keeperOf, learn, log, memoryBus, sumOf } from '../support/exchange.ts'
import { newFolder } from '../support/process.ts'

t.test('what one node is told all are told', async (t) => {
  const bus = memoryBus()
  const nodes = [0, 1].map(() => {
    const keeper = keeperOf(newFolder())
    return { keeper, exchange: createExchange({ keeper, redis: bus, log }) }
  }) as [{ keeper: Keeper; exchange: ReturnType<typeof createExchange> }, never]
  const [one, two] = nodes as { keeper: Keeper; exchange: ReturnType<typeof createExchange> }[] as [
    (typeof nodes)[0],
    (typeof nodes)[0],
  ]
  const rounds = async () => {
    for (let n = 0; n < 2; n++) {
      await one.exchange.round()
      await two.exchange.round()
    }
  }
  learn(one.keeper, 1)
  await rounds()
  await one.keeper.save()
  learn(two.keeper, 2)
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [3, 3])
  await one.keeper.save()
  learn(two.keeper, 4)
  await one.keeper.obey({ verb: 'rollback', id: 'revenue-1' })
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [1, 1], 'what two had learned is of the old epoch')
  learn(two.keeper, 8)
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [9, 9])
  await two.keeper.obey({ verb: 'freeze' })
  await two.keeper.obey({ verb: 'reset', supplier: 'acme' })
  await rounds()
  t.equal(one.keeper.of('revenue').isFrozen, true)
  t.ok(one.keeper.control.resets['acme']! > 0)
  await one.keeper.obey({ verb: 'unfreeze' })
  await rounds()
  t.equal(two.keeper.of('revenue').isFrozen, false)
  const late = keeperOf(newFolder())
  const joining = createExchange({ keeper: late, redis: bus, log })
  await joining.round()
  t.equal(sumOf(late), 9, 'a new node begins where the epoch does')
  t.ok(late.control.resets['acme']! > 0)
})

t.test('a bus that lost everything is told again; a damaged base is refused', async (t) => {
  let bus = memoryBus()
  const dir = newFolder()
  const keeper = keeperOf(dir)
  const exchange = createExchange({ keeper, redis: bus, log })
  learn(keeper, 1)
  await keeper.save()
  await keeper.save()
  await keeper.obey({ verb: 'rollback' })
  await exchange.round()
  await keeper.close()
  bus = memoryBus()
  const again = keeperOf(dir)
  await createExchange({ keeper: again, redis: bus, log }).round()
  const other = keeperOf(newFolder())
  await createExchange({ keeper: other, redis: bus, log }).round()
  t.equal(other.control.epochs.revenue, again.control.epochs.revenue)
  t.equal(sumOf(other), 1)
  const broken = { ...bus, base: async () => Buffer.from('x') }
  const third = keeperOf(newFolder())
  learn(third, 2)
  await createExchange({ keeper: third, redis: broken, log }).round()
  t.equal(third.failures.refused, 2, 'one of each mode')
  t.equal(sumOf(third), 2, 'it goes on from its own')
  t.equal(third.control.epochs.revenue, again.control.epochs.revenue)
})

t.test('a bus that hangs holds up the exchange alone', async (t) => {
  const hangs = () => new Promise<never>(() => {})
  const told = spellControl({
    epochs: { revenue: 5, margin: 5 },
    frozen: { at: 1, is: true },
    resets: {},
  })
  for (const hanging of ['control', 'base', 'publish', 'fetch'] as const) {
    const bus = { ...memoryBus(), control: async () => told, [hanging]: hangs }
    const dir = newFolder()
    const keeper = keeperOf(dir)
    const exchange = createExchange({ keeper, redis: bus, log, patience: 30 })
    learn(keeper, 1)
    void exchange.round()
    await keeper.obey({ verb: 'reset', supplier: 'acme' })
    await exchange.close()
    await keeper.close()
    t.equal(sumOf(keeperOf(dir)), 1, `${hanging}: the model is saved`)
  }
})

t.test('deltas wait for a bus that is away, bounded', async (t) => {
  const bus = memoryBus()
  let away = true
  const flaky = {
    ...bus,
    control: async () => {
      if (away) throw new Error('away')
      return bus.control()
    },
  }
  const keeper = keeperOf(null)
  const exchange = createExchange({ keeper, redis: flaky, log })
  for (let n = 0; n < 120; n++) {
    learn(keeper, 1)
    keeper.models.draw('revenue')
  }
  await exchange.round()
  t.equal(exchange.counts.sent, 0)
  t.equal(exchange.counts.dropped, 20)
  away = false
  await exchange.round()
  t.equal(exchange.counts.sent, 100)
})
