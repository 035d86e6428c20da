/** `bidweir model` and two services on one database: all nodes follow within seconds. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { replayCommand } from '../../../service/cli/replay.ts'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'
import { runHere } from '../../support/cli.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { command, type Running } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'
import { until } from '../../support/until.ts'

const key = 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'

const yaml = (supplier: string, database: string) => `
proxy: {listen: '127.0.0.1:0'}
admin: {listen: '127.0.0.1:0', impressions: {auth: context}}
store: {database: '${database}'}
opd: {keys: [{id: 1, secret: ${key}}], decisionLog: {path: data/decisions.ndjson}}
drain: {grace: 0s, timeout: 5s}
suppliers: [{id: demo, endpoints: ['${supplier}'], timeout: 20s, opd: {enabled: shadow}}]
`

const metric = async ({ adminPort }: Running, name: string) => {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}

t.test('two nodes follow the commands of either', { skip: postgresAbsent }, async (t) => {
  const postgres = await startPostgres()
  const supplier = await createDemoSupplier()
  const start = () => serveBidweir(yaml(supplier.url, postgres.url))
  const one = await start()
  const two = await start()
  t.teardown(async () => {
    await Promise.all([one.stop(), two.stop()])
    await supplier.close()
    await postgres.close()
  })
  const model = ({ folder }: Running, ...argv: string[]) =>
    runHere(['model', ...argv, '--config', join(folder, 'bidweir.yaml')])
  const both = (name: string, value: number) =>
    Promise.all([one, two].map((node) => until(async () => (await metric(node, name)) === value)))
  const freeze = ['model', 'freeze', '--config', 'bidweir.yaml']
  t.match(await command(freeze, { cwd: one.folder }), { code: 0, stdout: /^frozen/ })
  await both('bidweir_model_frozen', 1)
  t.match(await model(two, 'unfreeze'), { code: 0, stdout: 'learning\n' })
  await both('bidweir_model_frozen', 0)
  t.match(await model(one, 'rollback'), { code: 1, stderr: /no earlier snapshot/ })
  t.match(await model(one, 'rollback', 'revenue-9'), { code: 1, stderr: /no snapshot revenue-9/ })
  t.match(await model(one, 'reset', '--supplier', 'nobody'), { code: 1, stderr: /no supplier/ })
  t.match(await model(one, 'reset', '--supplier', 'demo'), { code: 0, stdout: /forget demo/ })
  t.match(await model(two, 'list'), { code: 0, stdout: /learning\ndemo reset 1 times/ })
  t.match(JSON.parse((await model(two, 'list', '--format', 'json')).stdout), {
    frozen: false,
    resets: { demo: 1 },
  })
  t.match(await model(one, 'nonsense'), { code: 64 })
})

t.test('the arguments of the command', async (t) => {
  for (const argv of [
    [],
    ['nonsense'],
    ['freeze', 'x'],
    ['rollback', 'a', 'b'],
    ['reset'],
    ['freeze', '--supplier', 'acme'],
    ['freeze', '--format', 'json'],
    ['list', '--format', 'xml'],
    ['list', '--nonsense'],
  ])
    t.equal((await runHere(['model', ...argv])).code, 64, argv.join(' '))
})

t.test('what a service logs replay reads; a stopped service leaves its models', async (t) => {
  const supplier = await createDemoSupplier()
  const bidweir = await serveBidweir(yaml(supplier.url, 'sqlite:data/b.db'))
  t.teardown(() => supplier.close())
  const admin = `http://127.0.0.1:${bidweir.adminPort}`
  let [bids, won] = [0, 0]
  for (let n = 0; n < 60; n++) {
    const answer = await fetch(`http://127.0.0.1:${bidweir.proxyPort}/bid/demo`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        id: `r${n}`,
        imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.1, tagid: 'top' }],
        site: { domain: 'news.example', publisher: { id: 'pub-1' } },
        user: { id: 'a-user', buyeruid: 'a-buyer' },
        device: { ip: '203.0.113.9', ifa: 'an-ifa', ua: 'a-browser' },
        tmax: 200,
      }),
    })
    if (answer.status !== 200) continue
    const { seatbid } = (await answer.json()) as {
      seatbid: { bid: { id: string; price: number; nurl: string }[] }[]
    }
    for (const { id, price, nurl } of seatbid.flatMap(({ bid }) => bid)) {
      bids++
      if (bids % 3 > 0) continue
      const context = new URL(nurl).searchParams.get('svc_opd')
      const notice = `bid_id=${encodeURIComponent(id)}&price=${price}&svc_opd=${context}`
      const { status } = await fetch(`${admin}/opd/imp?${notice}`)
      if (status === 200) won++
    }
  }
  t.ok(bids > 20, `${bids} bids`)
  await bidweir.stop()
  const file = join(bidweir.folder, 'data', 'decisions.ndjson')
  const options = { config: join(bidweir.folder, 'bidweir.yaml'), format: 'json', warmUp: '0s' }
  let [stdout, stderr] = ['', '']
  await replayCommand([file], options, {
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
  })
  t.equal(stderr, '')
  t.match(JSON.parse(stdout), {
    counts: { decisions: bids, wins: won, bad: 0, unmatched_wins: 0 },
    integrations: [{ ssp: 'demo', status: 'model-based, unverified', policy: { from: 'file' } }],
  })
  const log = readFileSync(file, 'utf8')
  for (const private_ of [
    'a-user',
    'a-buyer',
    '203.0.113.9',
    'an-ifa',
    'a-browser',
    'pub-1',
    'news',
  ])
    t.notOk(log.includes(private_), `${private_} is not in the log`)
  const listed = await runHere(['model', 'list', '--config', options.config])
  t.match(listed.stdout, /^revenue-1 .* newest/)
})
