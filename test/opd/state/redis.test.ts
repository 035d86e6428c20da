/** State that nodes share in a real Redis: found by all nodes, and no request waits when Redis is lost. */
import { createClient } from '@redis/client'
import t from 'tap'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import { ModelManager } from '../../../opd/state/model-manager.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { RedisState } from '../../../opd/state/redis.ts'
import { decided } from '../../support/decision-record.ts'
import { newFolder } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

const log = { info() {}, warn() {}, error() {} }
const record = (bidId: string, supplier = 'acme') =>
  decided({
    ...{ id: `d-${bidId}-${supplier}`, bidId, supplier },
    ...{ propensity: 0.97, inBa: '2.1', priceDsp: '2.6' },
    features: new Uint8Array([1, 2, 3]),
  })

t.test('two nodes on one Redis', { skip: redisAbsent }, async (t) => {
  const server = await startRedis()
  const alive: number[] = []
  const open = (onNodes: (nodes: number) => void = () => {}) =>
    new RedisState({ url: server.url, location: 'us', bidTtl: () => 60_000, log, onNodes })
  const one = open((nodes) => void alive.push(nodes))
  const two = open()
  t.teardown(async () => {
    await Promise.all([one.close(), two.close()])
    await server.stop()
  })
  await until(() => one.connected && two.connected)

  t.test('two nodes share the tokens of a supplier', async (t) => {
    const ask = async (node: typeof one, wanted: number, arrived = 0) => {
      const request = { supplier: 'acme', rate: 100, depth: 10, wanted, arrived }
      return (await node.tokens.ask([request, { ...request, supplier: 'other', wanted: 0 }]))![0]!
    }
    const began = performance.now()
    t.same(await ask(one, 1000, 30), { tokens: 10, demand: 30 }, 'no more than there are')
    let leased = 10
    let last = await ask(two, 1000, 10)
    t.ok(last.demand > 10 && last.demand <= 40, 'the demand of both')
    for (leased += last.tokens; leased < 40; leased += last.tokens) {
      last = await ask(leased % 2 < 1 ? one : two, 3)
      t.ok(last.tokens >= 0 && last.tokens <= 3)
    }
    // The clock of Redis has milliseconds.
    const most = 10 + ((performance.now() - began + 2) * 100) / 1000
    t.ok(leased <= most, `${leased} of ${most}`)
    t.equal((await ask(one, -4)).tokens, -4, 'given back')
    t.ok((await ask(two, 4)).tokens >= 4 - 1e-6)
  })

  t.test('a bid of one node is found by the other, by supplier', async (t) => {
    one.shared.put(record('b1'))
    one.shared.put(record('b1', 'zeta'))
    await until(async () => (await two.shared.find('b1'))?.length === 2)
    const found = (await two.shared.find('b1'))!.sort((a, b) => (a.supplier < b.supplier ? -1 : 1))
    t.match(found[0], {
      id: 'd-b1-acme',
      supplier: 'acme',
      inBa: '2.1',
      outBa: '1.9',
      priceDsp: '2.6',
      propensity: 0.97,
    })
    t.same([...found[0]!.features], [1, 2, 3])
    t.same(await two.shared.find('nothing'), [])
    one.shared.put({ ...record('b1'), id: 'later' })
    await until(
      async () => (await two.shared.find('b1'))?.some(({ id }) => id === 'later') === true,
    )
    t.equal((await two.shared.find('b1'))?.length, 2, 'the latest of each supplier')
  })

  t.test('a bid of one node is found by the other once it counts as written', async (t) => {
    for (let n = 0; n < 5; n++) {
      one.shared.put(record(`soon-${n}`))
      await two.shared.written()
      t.match(await two.shared.find(`soon-${n}`), [{ bidId: `soon-${n}` }])
    }
  })

  t.test('bids share a command, and expire', async (t) => {
    const client = await createClient({ url: server.url }).connect()
    t.teardown(() => client.destroy())
    const written = async () => {
      const before = one.counts.written
      await client.sendCommand(['CONFIG', 'RESETSTAT'])
      for (let n = 0; n < 50; n++) one.shared.put(record(`counted ${n}`))
      await until(() => one.counts.written === before + 50)
      const stats = await client.info('commandstats')
      return (name: string) =>
        Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
    }
    let calls = await written()
    // Once more if a node marked meanwhile that it lives, which it does every few seconds.
    for (let again = 0; again < 2 && calls('hset') !== 50; again++) calls = await written()
    t.ok(calls('eval') < 10, `${calls('eval')} commands of the client`)
    t.equal(calls('hset'), 50, 'what they do')
    const left = await client.pTTL('bidweir:bid:counted 49')
    t.ok(left > 0 && left <= 60_000, String(left))
  })

  t.test('a bid that Redis refuses does not prevent the others', async (t) => {
    const client = await createClient({ url: server.url }).connect()
    t.teardown(() => client.destroy())
    await client.set('bidweir:bid:no hash', '')
    const { written, dropped, failed } = one.counts
    for (const id of ['before', 'no hash', 'after']) one.shared.put(record(id))
    await until(() => one.counts.written === written + 2)
    t.match(one.counts, { dropped: dropped + 1, failed: failed + 1 })
    t.equal((await two.shared.find('after'))?.length, 1)
  })

  t.test('live nodes are counted', async (t) => {
    await until(() => alive.at(-1) === 2)
    t.equal(alive.at(-1), 2)
  })

  t.test('what one node learns the other knows', async (t) => {
    const managers = [one, two].map(
      () => new ModelManager({ dir: newFolder(), attributionWindow: 60_000, now: () => 1, log }),
    )
    const syncs = [one, two].map(
      (redis: RedisState, n) =>
        new ModelSync({ modelManager: managers[n]!, bus: redis.models, log }),
    )
    t.teardown(async () => {
      for (const part of [...syncs, ...managers]) await part.close()
    })
    const learner = managers[0]!.learnerOf('revenue')
    const facts = {
      supplier: 'acme',
      mode: 'revenue' as const,
      inBa: 2,
      floor: 0.5,
      publisher: 'p',
    }
    const policy = { minWinRate: 0, explore: 0, holdout: 0 }
    const chance = () =>
      managers[1]!.learnerOf('revenue').decide(facts, policy, 'k', 1, () => 0.5).winIn
    const before = chance()
    for (let n = 0; n < 200; n++) {
      const decision = learner.decide(facts, policy, `a${n}`, n, () => 0.5)
      learner.win(learner.expose(decision, decision.outBa, n), decision.outBa, n + 1)
    }
    // A round that began before the wins may be the one that runs now.
    const expectsMore = async () => {
      for (const sync of syncs) await sync.round()
      // What arrived is learned in slices.
      managers[1]!.learnerOf('revenue').advance(1)
      return chance() > before
    }
    await until(expectsMore, { what: 'the other node expects more wins' })
    // It merged the update, began with the model that contains it, or adopted the curve of the other.
    const { merged, taken, curvesReceived } = syncs[1]!.counts
    t.ok(merged + taken + curvesReceived > 0)
    await syncs[1]!.round()
    t.match(syncs[1]!.counts, { merged, taken }, 'once')
  })

  t.test('a command that Redis refuses is counted and logged, once a minute', async (t) => {
    const warnings: object[] = []
    const node = new RedisState({
      url: server.url,
      location: 'us',
      bidTtl: () => 60_000,
      log: { ...log, warn: (fields: object) => void warnings.push(fields) },
      onNodes() {},
    })
    const client = await createClient({ url: server.url }).connect()
    t.teardown(async () => {
      client.destroy()
      await node.close()
    })
    await until(() => node.connected)
    await client.set('bidweir:bid:user-4711', 'no hash')
    for (let n = 1; n <= 2; n++) {
      t.equal(await node.shared.find('user-4711'), null)
      t.equal(node.counts.failed, n)
    }
    t.same(warnings, [{ err: 'WRONGTYPE', failures: 1 }])
  })

  t.test('a bid is counted as written whenever it was, else as dropped', async (t) => {
    const { written, dropped } = one.counts
    one.shared.put(record('b10'))
    await until(() => one.counts.written === written + 1)
    server.hang()
    for (const id of ['b11', 'b12']) one.shared.put(record(id))
    await until(() => !one.connected, { what: 'a Redis that does not answer' })
    server.resume()
    await until(() => one.counts.written + one.counts.dropped === written + dropped + 3)
    t.match(one.counts, { written: written + 3, dropped })
    await until(async () => (await two.shared.find('b12'))?.length === 1)
    await until(async () => one.connected && (await one.shared.find('b11'))?.length === 1)
  })

  t.test('a link that swallows is no connection; what is lost with it is dropped', async (t) => {
    const link = await tcpProxy(Number(new URL(server.url).port))
    const node = new RedisState({
      ...{ url: `redis://127.0.0.1:${link.port}`, location: 'us', bidTtl: () => 60_000, log },
      onNodes() {},
    })
    t.teardown(async () => {
      await node.close()
      await link.close()
    })
    await until(() => node.connected)
    link.swallow(true)
    node.shared.put(record('b20'))
    await until(() => !node.connected, { what: 'a lost Redis' })
    t.same(node.counts, { ...node.counts, written: 0, dropped: 0 }, 'not known yet')
    link.swallow(false)
    await until(() => node.connected)
    t.match(node.counts, { written: 0, dropped: 1 })
    node.shared.put(record('b21'))
    await until(() => node.counts.written === 1)
    await until(async () => (await two.shared.find('b20'))?.length === 0)
  })

  t.test('a node that lags does not take that for a Redis that is away', async (t) => {
    await until(async () => (await one.shared.find('b10'))?.length === 1)
    const { failed } = one.counts
    const finding = one.shared.find('b10')
    // Busy for longer than a command may take.
    for (const began = performance.now(); performance.now() - began < 700; );
    t.equal((await finding)?.length, 1)
    t.equal(one.counts.failed, failed)
  })

  t.test('a Redis that hangs holds nobody for long', async (t) => {
    await until(async () => (await one.shared.find('b1'))?.length === 2)
    server.hang()
    const began = performance.now()
    t.equal(await one.shared.find('b1'), null)
    const first = performance.now() - began
    for (let n = 0; n < 100; n++) t.equal(await one.shared.find('b1'), null)
    t.ok(performance.now() - began < 50 * first, 'once it was found out nobody waits')
    server.resume()
    await until(async () => (await one.shared.find('b1'))?.length === 2)
  })

  t.test('without Redis everything goes on', async (t) => {
    await server.stop()
    await until(() => !one.connected)
    one.shared.put(record('b9'))
    t.equal(await one.shared.find('b1'), null)
    t.ok(one.counts.failed > 0)
    await server.start()
    await until(() => one.connected)
    await until(async () => {
      one.shared.put(record('b13'))
      return (await one.shared.find('b13'))?.length === 1
    })
  })
})

t.test('decisions that Redis has lost', { skip: redisAbsent }, async (t) => {
  const server = await startRedis()
  const open = (decisions: readonly ReturnType<typeof record>[]) => {
    const bidLog = new LocalBidLog({ ttl: 60_000, now: Date.now })
    for (const decision of decisions) bidLog.put(decision)
    const node = new RedisState({
      url: server.url,
      location: 'us',
      bidTtl: () => 60_000,
      held: (since, size) => bidLog.batches(since, size),
      log,
      onNodes() {},
    })
    t.teardown(() => node.close())
    const decide = (decided: ReturnType<typeof record>) => {
      bidLog.put(decided)
      node.shared.put(decided)
    }
    return { node, decide }
  }
  t.teardown(() => server.stop())
  const found = async (node: { shared: RedisState['shared'] }, id: string) =>
    (await node.shared.find(id))?.map(({ supplier }) => supplier).sort()
  const recent = (id: string, supplier?: string) => ({
    ...record(id, supplier),
    decidedAt: Date.now(),
  })
  const many = Array.from({ length: 2000 }, (_, n) => recent(`many-${n}`))
  const { node: one, decide: decideOne } = open(many)
  const { node: two, decide: decideTwo } = open([])
  await until(() => one.shared.isComplete && two.shared.isComplete)
  t.same(await found(two, 'many-0'), [], 'a node that starts writes nothing again')

  t.test('every node writes what it holds when Redis comes back empty', async (t) => {
    decideOne(recent('x', 'acme'))
    decideTwo(recent('x', 'zeta'))
    await until(async () => (await found(one, 'x'))?.length === 2)
    await server.stop()
    await until(() => !one.connected && !two.connected)
    t.equal(await found(one, 'x'), undefined, 'the log cannot be asked')
    decideOne(recent('while-away'))
    await server.start()
    // Never a part: a list with one of the two suppliers would be a guess.
    await until(async () => {
      const suppliers = [await found(one, 'x'), await found(two, 'x')]
      t.ok(
        suppliers.every((list) => list === undefined || list.length === 2),
        String(suppliers),
      )
      return suppliers.every((list) => list !== undefined)
    })
    t.same(await found(two, 'while-away'), ['acme'])
    for (const n of [0, 999, 1999]) t.same(await found(two, `many-${n}`), ['acme'])
    t.ok(one.counts.again >= many.length)
  })

  t.test(
    'what was decided while the connection of one node was cut is written after it',
    async (t) => {
      const link = await tcpProxy(Number(new URL(server.url).port))
      t.teardown(() => link.close())
      const bidLog = new LocalBidLog({ ttl: 60_000, now: Date.now })
      const cut = new RedisState({
        ...{ url: `redis://127.0.0.1:${link.port}`, location: 'us', bidTtl: () => 60_000, log },
        held: (since, size) => bidLog.batches(since, size),
        onNodes() {},
      })
      t.teardown(() => cut.close())
      await until(() => cut.shared.isComplete)
      link.swallow(true)
      const lost = recent('cut')
      bidLog.put(lost)
      cut.shared.put(lost)
      await until(() => !cut.connected)
      link.swallow(false)
      await until(async () => (await found(two, 'cut'))?.length === 1)
      t.same(await found(two, 'cut'), ['acme'])
    },
  )
})
