/** A node without a network: its models come from a signed file, and its decisions go home in the decision log. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { AgentClient, callOf } from '../support/agent.ts'
import { commandHere } from '../support/command.ts'
import { newFolder, runBidweir } from '../support/process.ts'
import { type ServedNode, serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const supplier = await echoSupplier()
t.teardown(() => supplier.close())
const secret = (n: number) => Buffer.alloc(32, n).toString('base64url')
const suppliers = ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}']
const folders = { home: newFolder(), sealed: newFolder() }
const configOf = (folder: string) => join(folder, 'bidweir.yaml')
const modelFile = join(folders.sealed, 'models.bin')
const log = join(folders.sealed, 'decisions.ndjson')

const startHome = () =>
  serveNode({
    endpoint: supplier.url,
    suppliers,
    folder: folders.home,
    auth: 'bearer',
    more: `opd: {keys: [{id: 1, secret: ${secret(1)}}]}`,
  })
const startSealed = () =>
  serveNode({
    endpoint: supplier.url,
    suppliers,
    folder: folders.sealed,
    more: `agent: {listen: "127.0.0.1:0", timeout: 60s}
node: {role: serve}
models: {from: models.bin}
opd: {keys: [{id: 1, secret: ${secret(1)}}], decisionLog: {path: decisions.ndjson}}`,
  })
const exported = async (t: Test, config = configOf(folders.home)) => {
  const { code, said } = await commandHere('model', 'export', modelFile, '--config', config)
  t.equal(code, 0, said)
  return said
}
const importing = (...args: string[]) =>
  commandHere('notices', 'import', ...args, '--config', configOf(folders.home))

/** A model with a version: a snapshot is written when a node ends. */
const first = await startHome()
await first.bid({ id: 'any' })
await first.stop()

/** Wins at lowered prices that a node has counted. */
const applied = async (node: ServedNode) =>
  (await node.metrics()).get('bidweir_agent_wins_total{ssp="acme",applied="true"}')

/** The prices that the sealed node sent, by bid id. */
const sent = new Map<string, number>()

t.test('a sealed node prices by an exported model, without database and Redis', async (t) => {
  t.match(await exported(t), /models\.bin: revenue-1 and margin-1 of .*, \d+ KiB/)
  const node = await startSealed()
  const client = new AgentClient(node.bidweir.agentPort!)
  const call = async (id: string) => {
    const bid_request = { ...callOf().bid_request, id: `auction of ${id}` }
    const answer = await client.call(callOf({ bid_request }, { id }))
    const price = answer.mutations[0]?.adjust_bid.price
    if (price !== undefined) sent.set(id, price)
    return answer
  }
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const answer = await call('won')
  t.equal(answer.metadata?.model_version, 'revenue-0-1')
  t.equal(answer.mutations.length, 1)
  for (const id of ['unapplied', 'lost', 'silent', 'late']) await call(id)
  t.notOk(existsSync(join(folders.sealed, 'data/bidweir.db')))

  t.test('a damaged or foreign file is refused, and the model before it stays', async (t) => {
    const good = readFileSync(modelFile)
    const damaged = Buffer.from(good)
    damaged[good.length - 40]! ^= 1
    const refused = async () =>
      (await node.metrics()).get('bidweir_model_snapshots_refused_total') ?? 0
    writeFileSync(modelFile, damaged)
    await until(async () => (await refused()) === 1)
    const foreign = newFolder()
    const stranger = await serveNode({
      endpoint: supplier.url,
      suppliers,
      folder: foreign,
      more: `opd: {keys: [{id: 1, secret: ${secret(2)}}]}`,
    })
    await stranger.stop()
    await exported(t, configOf(foreign))
    await until(async () => (await refused()) === 2)
    writeFileSync(modelFile, 'no model')
    await until(async () => (await refused()) === 3)
    t.match(await call('after'), { metadata: { model_version: 'revenue-0-1' } })
  })

  t.test('a newer file is taken', async (t) => {
    const home = await startHome()
    await home.stop()
    t.match(await exported(t), /revenue-2/)
    await until(async () => (await call('newer')).metadata?.model_version === 'revenue-0-2')
  })
})

t.test('its decisions are in the decision log, with their contexts', async (t) => {
  const lines = readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const won = lines.find(({ bid }) => bid === 'won')
  t.match(won, { ssp: 'acme', arm: 'treated', sealed: true, svc_opd: /^[\w-]{100,512}$/ })
  t.equal(won.out, sent.get('won'))
})

t.test('at home, notices of a file find them', async (t) => {
  const home = await startHome()
  t.teardown(() => home.stop())
  const now = new Date().toISOString()
  const wins = join(newFolder(), 'wins.csv')
  writeFileSync(
    wins,
    [
      'time,auction,win_price,event,note',
      `${now},won,${sent.get('won')},win,"a, ""b"""`,
      `${now},unapplied,2.4,win,`,
      `${now},lost,,loss,`,
    ].join('\r\n'),
  )
  const columns = ['--column', 'bid_id=auction', '--column', 'price=win_price']
  const { code, said } = await importing(wins, '--log', log, ...columns)
  t.equal(said, '2 attributed, 1 loss recorded\n')
  t.equal(code, 0)
  const row = async () => (await home.report('discrepancy?ssp=acme'))[0]
  t.match(await row(), { wins: 2, lowered: 2, unapplied: 1, unattributed: 0 })
  const margin = 2.4 - sent.get('won')!
  t.match((await home.report('margin?ssp=acme'))[0], {
    margin: String(Number((margin / 1000).toFixed(12))),
  })
  // The running node works off what follows: counters, and the model.
  const wonHere = async () =>
    (await home.metrics()).get(
      'bidweir_impressions_total{ssp="acme",mode="revenue",status="attributed",attribution="context",event="win"}',
    )
  await until(async () => (await wonHere()) === 2)

  t.test('importing them again changes nothing', async (t) => {
    const again = join(newFolder(), 'again.ndjson.gz')
    const notices = [
      { bid_id: 'won', price: sent.get('won'), time: now },
      { bid_id: 'unapplied', price: '2.4', time: now },
      { bid_id: 'lost', event: 'loss', time: Date.now() },
    ]
    writeFileSync(again, gzipSync(notices.map((notice) => JSON.stringify(notice)).join('\n')))
    const before = await row()
    const { said } = await importing(again, '--log', log)
    t.equal(said, '2 duplicate, 1 loss duplicate\n')
    t.same(await row(), before)
    t.equal(await wonHere(), 2)
  })

  t.test('with --complete every other bid of the log is lost, once', async (t) => {
    const late = join(newFolder(), 'late.ndjson')
    writeFileSync(late, `{"bid_id":"late","price":${sent.get('late')}}`)
    const { said } = await importing(late, '--log', log, '--complete')
    const lost = Number(/(\d+) lost without a notice/.exec(said)?.[1])
    t.equal(said, `1 attributed, ${lost} lost without a notice\n`)
    t.ok(lost >= 2, said)
    t.equal((await importing(late, '--log', log, '--complete')).said, '1 duplicate\n')
    // The model at home has them.
    const losses = async () =>
      (await home.metrics()).get('bidweir_losses_total{ssp="acme",status="recorded"}')
    await until(async () => (await losses()) === lost + 1)
  })

  t.test('faults name file and line, and the other lines count', async (t) => {
    const file = join(newFolder(), 'faults.ndjson')
    writeFileSync(
      file,
      [
        '{"bid_id":"won"}',
        'nothing',
        '{"bid_id":"newer","price":-1}',
        '{"bid_id":"newer","price":"99"}',
        '{"bid_id":"newer","price":1.5,"time":"yesterday"}',
        '{"bid_id":"newer","price":1.5,"time":"2999-01-01T00:00:00Z"}',
        `{"bid_id":"newer","price":${sent.get('newer')}}`,
        '{"bid_id":"nobody knows","price":1}',
      ].join('\n'),
    )
    const { code, said } = await importing(file, '--log', log)
    t.equal(code, 1)
    t.same(
      said
        .trim()
        .split('\n')
        .map((line) => line.replace(file, '')),
      [
        ':1: price is missing',
        ':2: is not JSON',
        ':5: time is not a time',
        ':6: time is in the future',
        ':3: price is not a plain decimal such as 1.25',
        ':4: implausible_price',
        '1 attributed, 1 unattributed, 6 refused',
      ],
    )
    await until(async () => (await applied(home)) === 3)
  })
})

t.test(
  'notices wait in the journal while no node runs, and the next start works them off',
  async (t) => {
    const file = join(newFolder(), 'wins.ndjson')
    writeFileSync(file, `{"bid_id":"silent","price":${sent.get('silent')}}`)
    t.equal((await importing(file, '--log', log)).said, '1 attributed\n')
    const home = await startHome()
    t.teardown(() => home.stop())
    await until(async () => (await applied(home)) === 1)
  },
)

t.test('a notice without a time counts on the day of its bid', async (t) => {
  const lines = readFileSync(log, 'utf8').trim().split('\n')
  const bid = JSON.parse(lines.find((line) => JSON.parse(line).bid === 'after')!)
  const older = join(newFolder(), 'older.ndjson')
  const time = bid.time - 4 * 60_000
  writeFileSync(older, `${JSON.stringify({ ...bid, time })}\n`)
  const file = join(newFolder(), 'wins.ndjson')
  writeFileSync(file, `{"bid_id":"after","price":${bid.out}}`)
  t.equal((await importing(file, '--log', older)).said, '1 attributed\n')
  const database = new DatabaseSync(join(folders.home, 'data/bidweir.db'), { readOnly: true })
  t.teardown(() => database.close())
  const row = database.prepare("select at from ledger where bid_id = 'after'").get()
  t.equal(row?.['at'], time)
})

t.test('a bid of a running node is found by its bid log, without a decision log', async (t) => {
  const home = await startHome()
  t.teardown(() => home.stop())
  const bid = await home.bid({ id: 'live', price: 2 })
  const file = join(newFolder(), 'wins.ndjson')
  writeFileSync(file, `{"bid_id":"live","price":${bid.out}}`)
  t.equal((await importing(file)).said, '1 unattributed\n')
  const found = async () => (await home.report('discrepancy?ssp=acme&via=proxy'))[0]
  await until(async () => (await found())?.['wins'] === 1)
})

t.test('what a sealed node cannot have is a fault of the configuration', async (t) => {
  const file = join(newFolder(), 'bidweir.yaml')
  writeFileSync(
    file,
    'models: {from: m.bin}\nstore: {redis: "redis://localhost"}\nproxy: {workers: 2}\n',
  )
  const { code, said } = await commandHere('check', '--config', file)
  t.equal(code, 1)
  for (const path of ['node.role', 'store.redis', 'opd.keys', 'proxy.workers'])
    t.match(said, new RegExp(`${path}`))
})

t.test('a sealed node does not start without a model that it can use', async (t) => {
  writeFileSync(modelFile, 'no model')
  await t.rejects(runBidweir(['start', '--config', configOf(folders.sealed)], folders.sealed), {
    message: /exited with 1: [\s\S]*models\.bin: it is no file of `bidweir model export`/,
  })
})
