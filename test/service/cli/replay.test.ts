/** `bidweir replay` on files: rotated, of two nodes, gzip, torn, invalid; and its exit codes. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { LogLine } from '../../../opd/replay/line.ts'
import { readLogs } from '../../../opd/state/log-reader.ts'
import { runHere } from '../../support/cli.ts'
import { marketLines, spelled } from '../../support/decision-log.ts'
import { newFolder } from '../../support/process.ts'

const replay = (...argv: string[]) => runHere(['replay', ...argv])
const text = (lines: Iterable<LogLine>) => `${[...lines].map(spelled).join('\n')}\n`
const market = { bids: 4000, explore: 0.3 }

t.test('a table for people, JSON for programs', async (t) => {
  const file = join(newFolder(), 'd.ndjson')
  writeFileSync(file, text(marketLines(market)))
  const human = await replay(file)
  t.equal(human.code, 0, human.stderr)
  t.match(human.stdout, /^4,000 decisions, [\d,]+ wins, \d too young at the end\n/)
  t.match(human.stdout, /acme \(revenue, defaults\): 3,99\d bids/)
  t.match(human.stdout, /win rate +\d+\.\d\d %/)
  const program = await replay(file, '--format', 'json')
  const report = JSON.parse(program.stdout)
  t.match(report, {
    format: 1,
    counts: { decisions: 4000, bad: 0, from: '2027-01-15T08:00:00.000Z' },
    integrations: [{ ssp: 'acme', mode: 'revenue', policy: { from: 'default' } }],
    total: { status: /verified/ },
  })
})

t.test('what warms up is learned from and in no figure', async (t) => {
  const file = join(newFolder(), 'd.ndjson')
  writeFileSync(file, text(marketLines(market)))
  const { stdout } = await replay(file, '--format', 'json', '--warm-up', '10s', '--pending', '5000')
  t.match(JSON.parse(stdout), {
    counts: { decisions: 4000, warm_up: 1000, open: 7, unmatched_wins: 0 },
    total: { bids: 2993 },
  })
  t.match((await replay(file, '--warm-up', '10s')).stdout, /1,000 decisions to warm up/)
})

t.test('the configuration names the policy, whatever its `enabled` says', async (t) => {
  const folder = newFolder()
  const file = join(folder, 'd.ndjson')
  writeFileSync(file, text(marketLines({ ...market, shadow: true })))
  const config = join(folder, 'c.yaml')
  const opd = '{enabled: false, minFactor: 0.99, minWinRate: 0}'
  writeFileSync(config, `suppliers: [{id: acme, endpoints: [http://x.example/], opd: ${opd}}]\n`)
  const { code, stdout } = await replay(file, '--config', config, '--format=json')
  t.equal(code, 0)
  const [acme] = JSON.parse(stdout).integrations
  t.match(acme, {
    status: 'model-based, unverified',
    why: [/nothing was explored/],
    ips: null,
    policy: { from: 'file', minFactor: 0.99 },
  })
  t.ok(acme.model.mean_factor >= 0.99)
  t.match(
    (await replay(file, '--config', config)).stdout,
    /model-based, unverified: nothing was explored/,
  )
  writeFileSync(config, 'suppliers: [{id: acme, endpoints: 7}]\n')
  const wrong = await replay(file, '--config', config)
  t.equal(wrong.code, 78)
  t.match(wrong.stderr, /endpoints/)
})

t.test('rotated files, a folder, gzip: the same report as one file', async (t) => {
  const folder = newFolder()
  const lines = text(marketLines(market)).trimEnd().split('\n')
  const one = join(folder, 'one.ndjson')
  writeFileSync(one, lines.join('\n'))
  const rotated = join(folder, 'rotated')
  mkdirSync(rotated)
  const third = Math.ceil(lines.length / 3)
  const part = (n: number) => lines.slice(n * third, (n + 1) * third).join('\n')
  writeFileSync(join(rotated, 'd.ndjson'), part(2))
  writeFileSync(join(rotated, 'd.ndjson.1'), part(1))
  writeFileSync(join(rotated, 'd.ndjson.2.gz'), gzipSync(part(0)))
  writeFileSync(join(rotated, 'notes.txt'), 'not a log')
  const complete = await replay(one)
  t.equal((await replay(rotated)).stdout, complete.stdout)
  const named = ['d.ndjson', 'd.ndjson.2.gz', 'd.ndjson.1'].map((name) => join(rotated, name))
  t.equal((await replay(...named)).stdout, complete.stdout)
})

t.test('logs of two nodes are merged by time', async (t) => {
  const folder = newFolder()
  const [one, two] = ['one', 'two'].map((ssp) => {
    const file = join(folder, `${ssp}.ndjson`)
    writeFileSync(
      file,
      text(marketLines({ bids: 3000, ssp, start: ssp === 'one' ? 1.8e12 : 1.8e12 + 7 })),
    )
    return file
  }) as [string, string]
  let last = 0
  let disorder = 0
  for await (const { line } of readLogs([two, one])) {
    if (line.kind === 'bad') t.fail(line.why)
    else if (line.time < last) disorder++
    else last = line.time
  }
  t.equal(disorder, 0)
  const { stdout } = await replay(one, two)
  t.match(stdout, /total: 5,98\d bids/)
})

t.test('bad lines are named and counted, and the rest is read', async (t) => {
  const file = join(newFolder(), 'd.ndjson')
  const lines = text(marketLines({ bids: 50 }))
    .trimEnd()
    .split('\n')
  lines.splice(3, 0, '{"half', `"${'x'.repeat(70_000)}"`, '', '[]')
  writeFileSync(file, `${lines.join('\r\n')}\n${lines[0]!.slice(0, 40)}`)
  const { code, stdout, stderr } = await replay(file)
  t.equal(code, 0)
  t.match(stdout, /^50 decisions, \d+ wins, 4 bad lines/)
  t.match(stderr, /d\.ndjson:4: not JSON\n/)
  t.match(stderr, /d\.ndjson:5: longer than 65536 bytes\n/)
  t.match(stderr, /d\.ndjson:7: no JSON object\n/)
})

t.test('gzip that is cut is read as far as it goes', async (t) => {
  const file = join(newFolder(), 'd.ndjson.gz')
  const complete = gzipSync(text(marketLines({ bids: 3000 })))
  writeFileSync(file, complete.subarray(0, complete.length - 2000))
  const { code, stdout, stderr } = await replay(file)
  t.equal(code, 0)
  t.match(stdout, /decisions, .* 1 bad lines/)
  t.match(stderr, /cannot be read further/)
})

t.test('what cannot be read at all has an exit code of its own', async (t) => {
  const folder = newFolder()
  const empty = join(folder, 'empty.ndjson')
  writeFileSync(empty, '')
  const wrong = join(folder, 'wrong.ndjson')
  writeFileSync(wrong, 'no\nno\n')
  mkdirSync(join(folder, 'none'))
  const cases: [string[], number, RegExp][] = [
    [[], 64, /missing required argument 'log'/],
    [[empty, '--format', 'xml'], 64, /Allowed choices are table, json/],
    [[empty, '--nonsense'], 64, /nonsense/],
    [[empty, '--pending', '-3'], 64, /pending/],
    [[empty, '--warm-up', 'soon'], 64, /--warm-up is a duration/],
    [[join(folder, 'missing')], 66, /missing: no such file or folder/],
    [[join(folder, 'none')], 66, /no log in this folder/],
    [[empty], 65, /the log is empty/],
    [
      [wrong],
      65,
      /wrong.ndjson:1: not JSON\n.*wrong.ndjson:2: not JSON\n.*no decision can be read/s,
    ],
    [[empty, '--config', join(folder, 'missing.yaml')], 78, /missing.yaml/],
  ]
  for (const [argv, code, said] of cases) {
    const answer = await replay(...argv)
    t.equal(answer.code, code, argv.join(' '))
    t.match(answer.stderr, said)
    t.equal(answer.stdout, '')
  }
})
