/** Two services on one Redis, and the command line: what one node is told both do within seconds. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createDemoSupplier } from '../../bench/demo/supplier.ts'
import type { CommandStreams } from '../../command-line.ts'
import { runCommand } from '../../commands.ts'
import { type ModelArgs, modelCommand } from '../../model-command.ts'
import { type Bidweir, command, newFolder, startBidweir } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const key = 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'

const yaml = (supplier: string, redis: string | null) => `
proxy: {listen: '127.0.0.1:0'}
admin: {listen: '127.0.0.1:0', impressions: {auth: context}}
store: {database: 'sqlite:data/b.db', redis: ${redis}}
opd: {keys: [{id: 1, secret: ${key}}], decisionLog: {path: data/decisions.ndjson}}
drain: {grace: 0s, timeout: 5s}
suppliers: [{id: demo, endpoints: ['${supplier}'], timeout: 250ms, opd: {enabled: shadow}}]
`

const metric = async ({ adminPort }: Bidweir, name: string) => {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}
/** What a command writes, in this process: a process of its own takes a second to start. */
async function caught(run: (streams: CommandStreams) => Promise<number | null>) {
  let [stdout, stderr] = ['', '']
  const code = await run({
    stdin: process.stdin,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  })
  return { code, stdout, stderr }
}
const model = ({ folder }: Bidweir, args: ModelArgs) =>
  caught((streams) =>
    modelCommand(args, {
      dir: join(folder, 'data', 'models'),
      suppliers: new Set(['demo']),
      ...streams,
    }),
  )

t.test('freeze, roll back and forget, on all nodes', { skip: redisAbsent }, async (t) => {
  const redis = await startRedis()
  const supplier = await createDemoSupplier()
  const start = () => startBidweir(yaml(supplier.url, `'${redis.url}'`))
  const [one, two] = (await Promise.all([start(), start()])) as [Bidweir, Bidweir]
  t.teardown(async () => {
    await Promise.all([one.stop(), two.stop()])
    await supplier.close()
    await redis.stop()
  })
  const argv = ['model', 'freeze', '--config', 'bidweir.yaml']
  const frozen = await command(argv, { cwd: one.folder })
  t.match(frozen, { code: 0, stdout: /^frozen/ })
  for (const node of [one, two])
    await until(async () => (await metric(node, 'bidweir_model_frozen')) === 1)
  t.match(await model(two, { verb: 'unfreeze' }), { code: 0, stdout: 'learning\n' })
  for (const node of [one, two])
    await until(async () => (await metric(node, 'bidweir_model_frozen')) === 0)
  t.match(await model(one, { verb: 'rollback' }), { code: 1, stderr: /no earlier snapshot/ })
  t.match(await model(one, { verb: 'reset', supplier: 'demo' }), { code: 0, stdout: /forgotten/ })
  await until(async () => (await model(two, { verb: 'list' })).stdout.includes('demo forgotten'))
  t.pass()
})

t.test('what a service logs replay reads; a stopped service leaves its models', async (t) => {
  const supplier = await createDemoSupplier()
  const bidweir = await startBidweir(yaml(supplier.url, null), newFolder())
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
  const argv = [
    'replay',
    file,
    '--config',
    join(bidweir.folder, 'bidweir.yaml'),
    '--format',
    'json',
  ]
  const { code, stdout, stderr } = await caught((streams) => runCommand(argv, streams))
  t.equal(code, 0, stderr)
  t.match(JSON.parse(stdout), {
    counts: { decisions: bids, wins: won, bad: 0, unmatched_wins: 0 },
    integrations: [{ ssp: 'demo', verdict: 'model-based, unverified', policy: { from: 'file' } }],
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
  t.match((await model(bidweir, { verb: 'list' })).stdout, /^revenue-1 .* newest/)
})
