/** Every panel of the dashboards has data when Prometheus scrapes a demo. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { freePort } from '../support/postgres.ts'
import { newFolder, runBidweir } from '../support/process.ts'
import { until } from '../support/until.ts'
import { chart } from './helm.ts'

const skip = spawnSync('prometheus', ['--version']).status === 0 ? false : 'prometheus not found'

/** What only nodes on Redis have, and a reason that no response of the demo gives. */
const absent = ['Redis', 'Model updates between nodes', 'Responses left as they came']

t.test('every panel has data from a demo', { skip }, async (t) => {
  const folder = newFolder()
  const ports = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const bidweir = await runBidweir(['demo', ...ports, '--state', join(folder, 'state')], folder)
  t.teardown(() => bidweir.stop())
  // the demo is refused nothing
  t.equal((await fetch(`http://127.0.0.1:${bidweir.adminPort}/api/svc/ssp/`)).status, 401)
  const labels = { namespace: 'n', service: 's', pod: 'p' }
  const targets = [`127.0.0.1:${bidweir.adminPort}`]
  const config = {
    global: { scrape_interval: '2s', scrape_timeout: '2s' },
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
    return panels
      .filter(({ title }) => !absent.includes(title))
      .flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })))
  })
  let missing = wanted
  await until(async () => {
    const before = missing.length
    const without: typeof wanted = []
    for (const each of missing) {
      const asked = each.expr
        .replaceAll('$__rate_interval', '30s')
        .replaceAll(/\$(namespace|service|ssp)/g, '.*')
      if (!(await hasData(asked))) without.push(each)
    }
    missing = without
    if (missing.length < before) t.comment(`without data: ${missing.map(({ title }) => title)}`)
    return missing.length === 0
  })
  t.ok(wanted.length > 40)
})
