/** Waits of tests: bounded, with a message, and in one place. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { until } from './until.ts'

t.test('a condition that never holds is an error that names it', async (t) => {
  const count = 0
  await t.rejects(
    until(() => count > 0, { limit: 20 }),
    { message: 'not within 20 ms: () => count > 0' },
  )
  await t.rejects(
    until(() => false, { what: 'a reply', limit: 20 }),
    { message: /: a reply$/ },
  )
  const silent = () => new Promise<boolean>(() => {})
  await t.rejects(until(silent, { limit: 20 }), /not within 20 ms/, 'nor one that never answers')
  const broken = async () => Promise.reject(new Error('broken'))
  await t.rejects(until(broken), { message: 'broken' })
  let asked = 0
  await t.resolves(until(async () => ++asked === 4))
  t.equal(asked, 4)
})

const folder = fileURLToPath(new URL('..', import.meta.url))
const files = globSync('**/*.ts', { cwd: folder }).filter(
  (name) => !/^support\/until\.(test\.)?ts$/.test(name),
)

/** What no test does, and what it does instead. */
const forbidden: Record<string, { pattern: RegExp; instead: string }> = {
  'a fixed sleep': {
    pattern: /setTimeout\((?:resolve|done|r)\b|setTimeout\(\(\) => resolve\(|timers\/promises/,
    instead: 'until(), or timePasses() with its reason',
  },
  'a poll of its own': {
    pattern: /^\s*while \(.*(?:\);|await (?:new Promise|once|pause|sleep).*)$/m,
    instead: 'until()',
  },
  // A program that runs until it is killed says so by its type. A loop without a step reads page after page.
  'an unbounded loop that waits': {
    pattern:
      /(?<!Promise<never> \{\n)^( *)(?:for \([^;)\n]*; ; [^)\n]+\)|for \(;;\)|while \(true\)) \{(?:(?!^\1\})[\s\S])*?\bawait\b/m,
    instead: 'until()',
  },
  'a fixed port': { pattern: /\.listen\((?:\{ port: )?[1-9]\d*\b/, instead: 'port 0' },
  'a time limit of its own': {
    pattern:
      /\bt\.setTimeout\(|\bt\.test\((?:(?!=>)[\s\S])*?\btimeout: \d|\bwaitFor\w*\([^\n]*\btimeout: \d|\blimit: \d[\d_]{3}/,
    instead: 'timeout of .taprc, the limit of until(), or startLimit',
  },
}

t.test('the patterns find what they forbid, and nothing else', async (t) => {
  const { pattern: loop } = forbidden['an unbounded loop that waits']!
  for (const head of ['for (;;) {', 'for (let n = 0; ; n++) {', 'while (true) {']) {
    t.match(`  ${head}\n    if (await ready()) return\n  }`, loop)
    t.notMatch(`  ${head}\n    if (next() < 0) return\n  }\n  await ready()`, loop)
  }
  t.notMatch('async function f(): Promise<never> {\n  for (;;) {\n    await a()\n  }', loop)
  const { pattern: limit } = forbidden['a time limit of its own']!
  for (const text of [
    "t.test('a', { skip, timeout: 280_000 }, async (t) => {",
    "t.test(\n  'a',\n  { timeout: 5000 },\n  async (t) => {",
    'page.waitForEvent("download", { timeout: 5000 })',
    'until(ready, { limit: 240_000 })',
  ])
    t.match(text, limit)
  t.notMatch("t.test('a', async (t) => {\n  start({ timeout: 5000 })", limit)
})

for (const [what, { pattern, instead }] of Object.entries(forbidden))
  t.test(`no test has ${what}`, async (t) => {
    const found = files.filter((name) => pattern.test(readFileSync(`${folder}/${name}`, 'utf8')))
    t.same(found, [], `use ${instead}`)
  })
