/** Every panel of the dashboards has data when Prometheus scrapes a demo, and a node on Redis. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { AgentClient, callOf } from '../support/agent.ts'
import { freePort } from '../support/postgres.ts'
import { newFolder, runBidweir } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { startNode } from '../support/service-node.ts'
import { httpSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'
import { chart } from './helm.ts'

const skip =
  redisAbsent ||
  (spawnSync('prometheus', ['--version']).status === 0 ? false : 'prometheus not found')

/**
 * What the demo has not: Redis, a worker, an agent, a response that cannot be read, and a supplier that fails, with more than a
 * request per second.
 */
async function nodeOnRedis(t: Test) {
  const redis = await startRedis()
  const supplier = await httpSupplier((_request, response, body) => {
    if (JSON.parse(body).id === 'fails') {
      response.destroy()
      return
    }
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.end('{}')
  })
  const node = await startNode({
    suppliers: ['id: plain, opd: {enabled: true, holdout: 0}', 'id: failing'],
    endpoint: supplier.url,
    auth: 'none',
    workers: 2,
    more: `store: {redis: "${redis.url}"}\nagent: {listen: "127.0.0.1:0", timeout: 60s}\nopd: {keys: [{id: 1, secret: ${Buffer.alloc(32, 1).toString('base64url')}}]}`,
  })
  t.teardown(async () => {
    await node.stop()
    await Promise.all([supplier.close(), redis.stop()])
  })
  const ask = async (ssp: string, id: string) => {
    const answer = await fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/${ssp}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id, imp: [{ id: '1', banner: { w: 300, h: 250 } }] }),
    })
    await answer.arrayBuffer()
    return answer.status
  }
  t.equal(await ask('plain', 'r'), 200)
  const client = new AgentClient(node.bidweir.agentPort!)
  t.teardown(() => client.close())
  let calls = 0
  /** An agent call, and the win of its bid. */
  async function callAgent(): Promise<void> {
    const id = `bid-${++calls}`
    const { mutations } = await client.call(callOf({ originator: { id: 'plain' } }, { id }))
    const price = mutations[0]?.adjust_bid.price ?? 2.4
    await node.notify({ bid_id: id, price: String(price) })
  }
  const askFailing = () => Promise.all(Array.from({ length: 40 }, () => ask('failing', 'fails')))
  return { port: node.bidweir.adminPort, callAgent, askFailing }
}

t.test('every panel has data from a demo', { skip }, async (t) => {
  const folder = newFolder()
  const ports = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const bidweir = await runBidweir(['demo', ...ports, '--state', join(folder, 'state')], folder)
  t.teardown(() => bidweir.stop())
  // the demo is refused nothing
  t.equal((await fetch(`http://127.0.0.1:${bidweir.adminPort}/api/svc/ssp/`)).status, 401)
  const labels = { namespace: 'n', service: 's', pod: 'p' }
  const { port, callAgent, askFailing } = await nodeOnRedis(t)
  const targets = [bidweir.adminPort, port].map((port) => `127.0.0.1:${port}`)
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    // the recording rules of the overview
    rule_files: [join(chart, 'files/alerts.yaml')],
    scrape_configs: [{ job_name: 'bidweir', static_configs: [{ targets, labels }] }],
  }
  writeFileSync(join(folder, 'prometheus.yaml'), stringify(config))
  const address = `127.0.0.1:${await freePort()}`
  const prometheus = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'tsdb')}`,
      `--web.listen-address=${address}`,
      '--log.level=error',
    ],
    { stdio: 'ignore' },
  )
  t.teardown(async () => {
    const ended = once(prometheus, 'exit')
    prometheus.kill()
    await ended
  })
  const hasData = async (expr: string) => {
    const query = new URLSearchParams({ query: expr })
    const answer = await fetch(`http://${address}/api/v1/query?${query}`).catch(() => null)
    if (answer === null || answer.status === 503) return false
    const { status, error, data } = (await answer.json()) as {
      status: string
      error?: string
      data: { result: { value: [number, string] }[] }
    }
    if (status !== 'success') throw new Error(`${expr}: ${error}`)
    return data.result.some(({ value }) => value[1] !== 'NaN')
  }
  const dashboards = join(chart, 'dashboards')
  const wanted = readdirSync(dashboards).flatMap((name) => {
    const { panels } = JSON.parse(readFileSync(join(dashboards, name), 'utf8')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    return panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })))
  })
  let missing = wanted
  await until(async () => {
    await Promise.all([callAgent(), askFailing()])
    const before = missing.length
    const without: typeof wanted = []
    for (const rule of missing) {
      const asked = rule.expr
        .replaceAll('$__rate_interval', '30s')
        .replaceAll(/\$(namespace|service|ssp)/g, '.*')
      if (!(await hasData(asked))) without.push(rule)
    }
    missing = without
    if (missing.length < before) t.comment(`without data: ${missing.map(({ title }) => title)}`)
    return missing.length === 0
  })
  t.ok(wanted.length > 40)
})
