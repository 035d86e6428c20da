/** `/metrics` of a whole node, as strict parsers read it: names, types, units, one line for each series. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { needsPromtool } from '../chart/prometheus.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { serveNode } from '../support/served-node.ts'
import { type Answered, echoSupplier, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const sample =
  /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*",?)*\})? ([+-]?Inf|[-+\d.e]+)$/
const parts: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
}

/** What a linter would say; empty: nothing. */
function faultsOf(text: string): string[] {
  const faults: string[] = []
  const types = new Map<string, string>()
  const series = new Set<string>()
  let family = ''
  for (const line of text.split('\n').filter((line) => line !== '')) {
    const [, help] = /^# HELP (\S+) \S/.exec(line) ?? []
    const [, name, type = ''] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
    if (help !== undefined) family = help
    else if (name !== undefined) {
      if (types.has(name) || name !== family) faults.push(`${name} is not one family`)
      types.set(name, type)
      if ((type === 'counter') !== name.endsWith('_total')) faults.push(`${name} is a ${type}`)
      if (!/^(bidweir|process|nodejs)_/.test(name)) faults.push(`${name} has no prefix`)
      if (/_(sum|count|bucket)$/.test(name)) faults.push(`${name}: reserved for parts of a family`)
      if (/_(gauge|counter|histogram|summary)(_|$)/.test(name)) faults.push(`${name}: its type`)
      if (/_(ms|milliseconds|minutes|kb|kilobytes)(_|$)/.test(name)) faults.push(`${name}: unit`)
    } else {
      const [, base = '', labels = ''] = sample.exec(line) ?? []
      const endings = parts[types.get(family) ?? ''] ?? ['']
      if (!endings.some((end) => base === family + end)) faults.push(`in ${family}: ${line}`)
      if (series.has(base + labels)) faults.push(`twice: ${base}${labels}`)
      series.add(base + labels)
    }
  }
  return faults
}

/** Each of what CONTRACT 10 names, as one series that is there once traffic has come. */
const promised: Readonly<Record<string, string>> = {
  'requests by ssp and outcome': 'bidweir_requests_total{ssp="acme",outcome="answer"}',
  'request duration': 'bidweir_request_duration_seconds_count{ssp="acme"}',
  'upstream duration': 'bidweir_upstream_duration_seconds_count{ssp="acme"}',
  'overhead added by the proxy': 'bidweir_overhead_seconds_count{ssp="acme"}',
  'bids by ssp, mode and reason': 'bidweir_bids_total{ssp="marg",mode="margin",reason="treated"}',
  factors: 'bidweir_factor_count{ssp="acme",mode="revenue"}',
  'in prices': 'bidweir_in_price_sum_total{ssp="acme",mode="revenue"}',
  'out prices': 'bidweir_out_price_sum_total{ssp="acme",mode="revenue"}',
  'impressions by ssp, mode, attribution':
    'bidweir_impressions_total{ssp="acme",mode="revenue",status="attributed",attribution="context",event="win"}',
  'cleared prices': 'bidweir_cleared_price_sum_total{ssp="acme",mode="revenue"}',
  'margin and its wins': 'bidweir_margin_count{ssp="acme",mode="revenue"}',
  margin: 'bidweir_margin_sum{ssp="acme",mode="revenue"}',
  'win rate': 'bidweir_win_rate{ssp="acme",mode="revenue",arm="optimised"}',
  'duplicate contexts':
    'bidweir_impressions_total{ssp="acme",mode="revenue",status="duplicate",attribution="context",event="win"}',
  'invalid contexts': 'bidweir_contexts_total{context="invalid"}',
  'model version': 'bidweir_model_version{mode="revenue"}',
  'model age': 'bidweir_model_age_seconds{mode="revenue"}',
  'store latency': 'bidweir_store_commit_seconds_count',
  'config reloads': 'bidweir_config_reloads_total{result="taken"}',
  'event-loop lag': 'bidweir_event_loop_lag_seconds',
  'bids by arm': 'bidweir_arm_bids_total{ssp="acme",mode="revenue",arm="optimised"}',
  'wins by arm': 'bidweir_arm_wins_total{ssp="acme",mode="revenue",arm="optimised"}',
  'revenue by arm': 'bidweir_arm_won_in_price_sum_total{ssp="acme",mode="revenue",arm="optimised"}',
  'the database': 'bidweir_store_up',
  'the last reload': 'bidweir_config_last_reload_successful',
  'a restart that is needed': 'bidweir_restart_needed',
  draining: 'bidweir_draining',
  'a call without a token': 'bidweir_auth_failures_total{kind="missing"}',
  'a wrong password': 'bidweir_auth_failures_total{kind="password"}',
  'a refresh token that is not valid': 'bidweir_auth_failures_total{kind="refresh_token"}',
  'the process': 'process_resident_memory_bytes',
  'Node.js': 'nodejs_heap_size_used_bytes',
  'QPS allotment': 'bidweir_qps_allotment{ssp="acme"}',
  'QPS refusals': 'bidweir_requests_total{ssp="acme",outcome="qps"}',
}

const suppliers = [
  'id: acme, opd: {enabled: true, holdout: 0.3}',
  'id: marg, opd: {enabled: true, mode: margin, targetMargin: 0.15, explore: 0}',
  'id: quiet',
]

t.test('what is promised is there, and has counted', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({ endpoint: supplier.url, suppliers, auth: 'none' })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const bid = async (ssp: string) => {
    let n = 0
    let priced: Answered | undefined
    await until(async () => {
      const bid = await node.bid({ id: `${ssp}-${n++}`, ssp })
      if (bid.in !== bid.out) priced = bid
      return priced !== undefined
    })
    return priced!
  }
  const won = await bid('acme')
  await bid('marg')
  const notice = { bid_id: won.id, price: '0.5', svc_opd: won.svcOpd }
  for (let n = 0; n < 2; n++) await node.notify(notice)
  await node.notify({ ...notice, bid_id: 'x', svc_opd: 'forged' })
  const allotment = '{"datacenters":[{"location":"local","client_qps":0,"is_active":true}]}'
  const headers = { 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body: allotment }
  t.equal((await node.api('/api/svc/ssp/acme/', init)).status, 201)
  await until(async () => (await node.metrics()).get('bidweir_qps_allotment{ssp="acme"}') === 0)
  await node.bid({ id: 'refused' }).catch(() => null)
  t.equal((await fetch(`${node.admin}/api/svc/ssp/`)).status, 401)
  const realm = `${node.admin}/auth/realms/main/protocol/openid-connect/token`
  for (const [grant, ...fields] of [
    ['password', 'username', 'admin', 'password', 'wrong'],
    ['refresh_token', 'refresh_token', 'old'],
  ]) {
    const form = new URLSearchParams({ client_id: 'public-client', grant_type: grant! })
    for (let index = 0; index < fields.length; index += 2)
      form.set(fields[index]!, fields[index + 1]!)
    t.equal((await fetch(realm, { method: 'POST', body: form })).status, 400)
  }
  const before = await node.metrics()
  for (const result of ['taken', 'refused'])
    t.equal(before.get(`bidweir_config_reloads_total{result="${result}"}`), 0, 'before a reload')
  process.kill(process.pid, 'SIGHUP')
  await until(async () => ((await node.metrics()).get(promised['config reloads']!) ?? 0) > 0)
  const metrics = await node.metrics()
  const zero = new Set([
    ...['QPS allotment', 'model version', 'model age', 'event-loop lag'],
    ...['a restart that is needed', 'draining'],
  ])
  for (const [what, series] of Object.entries(promised)) {
    const value = metrics.get(series) ?? Number.NaN
    t.ok(value > 0 || (zero.has(what) && value >= 0), `${what}: ${value}`)
  }
  const up = [...metrics].filter(([series]) => series.startsWith('bidweir_endpoint_up{ssp="acme"'))
  t.same(
    up.map(([, value]) => value),
    [1],
    'endpoint state',
  )
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  t.match(text, /^bidweir_build_info\{version="\d+\.\d+\.\d+[^"]*",node="\d+\.[\d.]+"\} 1$/m)
  const bounds = [0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25]
  for (const family of ['bidweir_request_duration_seconds', 'bidweir_upstream_duration_seconds'])
    for (const le of bounds) t.ok(metrics.has(`${family}_bucket{ssp="acme",le="${le}"}`), `${le} s`)
  for (const family of ['bidweir_kept_win_rate', 'bidweir_uplift'])
    for (const bound of ['', '_lower', '_upper']) t.match(text, `# TYPE ${family}${bound} gauge`)
})

for (const [title, skip, more] of [
  ['alone', false, ''],
  ['with Redis', redisAbsent, 'redis'],
] as const)
  t.test(`every family is sound, ${title}`, { skip }, async (t) => {
    const supplier = await echoSupplier()
    const redis = more === '' ? null : await startRedis()
    const key = Buffer.alloc(32, 1).toString('base64url')
    const settings =
      redis === null ? '' : `store: {redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`
    const node = await serveNode({
      endpoint: supplier.url,
      suppliers,
      auth: 'none',
      more: settings,
    })
    t.teardown(async () => {
      await node.stop()
      await supplier.close()
      await redis?.stop()
    })
    const names = ['other', 'unknown', '', 'a"b\\c\nd', 'é💸', 'x'.repeat(500)]
    for (const [n, name] of names.entries()) {
      const request = { site: { domain: name, publisher: { id: name } } }
      const won = await node.bid({ id: `b${n}`, request })
      await node.notify({ bid_id: won.id, price: '0.5', svc_opd: won.svcOpd })
    }
    for (const price of ['x', 'AUDIT', '0.5', '0.5']) await node.notify({ bid_id: 'ghost', price })
    const answer = await fetch(`${node.admin}/metrics`)
    t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
    t.same(faultsOf(await answer.text()), [])
    t.equal(answer.headers.get('content-encoding'), 'gzip', 'fetch asks for it')
    const plain = await fetch(`${node.admin}/metrics`, {
      headers: { 'accept-encoding': 'gzip;q=0' },
    })
    t.equal(plain.headers.get('content-encoding'), null)
    t.match(await plain.text(), /^# HELP /)
    const metrics = await node.metrics()
    t.equal(metrics.get('bidweir_engine_faults_total{place="pricing"}'), 0)
    await t.test('promtool', needsPromtool, async (t) => {
      const input = await (await fetch(`${node.admin}/metrics`)).text()
      const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
        input,
        encoding: 'utf8',
      })
      t.equal(`${stdout}${stderr}`, '')
      t.equal(status, 0)
    })
    t.equal(sumOf(metrics, 'bidweir_impressions_received_total'), names.length + 4)
    t.equal(sumOf(metrics, 'bidweir_impressions_total'), names.length + 4)
    t.equal(sumOf(metrics, 'bidweir_publisher_impressions_total', 'ssp="acme"'), names.length)
    t.equal(sumOf(metrics, 'bidweir_cleared_price_sum_total', 'ssp="acme"'), names.length / 2)
    if (redis !== null) t.equal(sumOf(metrics, 'bidweir_redis_up'), 1)
  })

t.test('answers that OPD leaves alone, to the last one', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: [
      'id: acme, opd: {enabled: true}',
      'id: none',
      'id: off, opd: {enabled: false}',
      'id: faulty, opd: {enabled: true, minFactor: 7}',
    ],
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  for (const ssp of ['acme', 'none', 'off', 'off', 'faulty', 'faulty', 'faulty'])
    await node.bid({ id: 'b', ssp })
  const metrics = await node.metrics()
  const left = (ssp: string, reason: string) =>
    sumOf(metrics, 'bidweir_answers_untouched_total', `ssp="${ssp}"`, `reason="${reason}"`)
  t.equal(left('none', 'disabled'), 1)
  t.equal(left('off', 'disabled'), 2)
  t.equal(left('faulty', 'invalid_config'), 3)
  t.equal(sumOf(metrics, 'bidweir_answers_untouched_total'), 6)
})

t.test('times of more suppliers than have series of their own are counted once', async (t) => {
  const supplier = await echoSupplier()
  const ids = Array.from({ length: 130 }, (_, n) => `s${n}`)
  const node = await serveNode({
    endpoint: supplier.url,
    suppliers: ids.map((id) => `id: ${id}, opd: {enabled: true}`),
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  for (const ssp of ids) await node.bid({ id: 'b', ssp })
  const families = ['request_duration', 'upstream_duration', 'overhead']
  for (const scrape of ['first', 'second', 'third']) {
    const metrics = await node.metrics()
    for (const family of families) {
      const count = `bidweir_${family}_seconds_count`
      t.equal(sumOf(metrics, count), ids.length, `${scrape}: ${family}`)
      t.equal(sumOf(metrics, count, 'ssp="_other"'), 30)
    }
  }
})
