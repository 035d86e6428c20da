import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'

const harness = new URL('../../bench/harness/bench.ts', import.meta.url)

/** A benchmark with two sections; the second one's figures are given, and what it does besides. */
function benchWith(t: Test, figures: readonly number[], also = '') {
  const folder = join(t.testdir(), 'sample')
  mkdirSync(folder)
  const main = join(folder, 'main.mjs')
  const rows = (text: string) => `{ head: ['what', 'us'], rows: [['${text}', 1]] }`
  writeFileSync(
    main,
    `import { bench } from '${harness}'
    await bench({
      folder: ${JSON.stringify(folder)}, title: 'Sample', about: 'A sample.',
      options: {
        rate: { value: 5, least: 1, help: 'A rate.' },
        body: { value: 'mix', oneOf: ['mix', 'video'], help: 'A body.' },
        url: { value: 'http://a', help: 'An origin.', valid: URL.canParse },
      },
      sections: {
        one: { title: 'One', run: () => [${rows('first')}, { file: 'a.svg', alt: 'a', svg: '<svg/>' }] },
        two: { title: 'Two', run: (run) => { ${also}; return [${rows('second')}, JSON.stringify(run.options), run.steady('it', ${JSON.stringify(figures)})] } },
      },
    })`,
  )
  return {
    results: join(folder, 'RESULTS.md'),
    plot: join(folder, 'a.svg'),
    run: (...argv: string[]) => spawnSync(process.execPath, [main, ...argv], { encoding: 'utf8' }),
  }
}

t.test('the results are printed, and written with --write only', async (t) => {
  const { run, results, plot } = benchWith(t, [10, 11])
  const printed = run()
  t.equal(printed.status, 0, printed.stderr)
  t.match(printed.stdout, /^# Sample\n\n`npm run bench:sample`: [\s\S]*## One[\s\S]*## Two/)
  t.match(printed.stdout, 'it varied by 10 % over the rounds.')
  t.notOk(existsSync(results))
  t.equal(run('--write').status, 0)
  t.match(readFileSync(results, 'utf8'), /first[\s\S]*second/)
  t.equal(readFileSync(plot, 'utf8'), '<svg/>')
})

t.test('figures that vary by more than 15 % are written with that', async (t) => {
  const { run, results } = benchWith(t, [10, 11.6])
  t.equal(run('--write').status, 0)
  t.match(readFileSync(results, 'utf8'), /it varied by 16 % over the rounds: the machine was busy/)
})

t.test('a refused run fails, and nothing is written', async (t) => {
  const { run, results } = benchWith(t, [1], "run.refuse('requests were lost')")
  const { status, stdout, stderr } = run('--write')
  t.equal(status, 1)
  t.match(stdout, /second[\s\S]*## Not to be published\n\n- requests were lost/)
  t.match(stderr, /^refused: requests were lost/m)
  t.notOk(existsSync(results))
})

t.test('--only runs the sections that it names, and refuses others', async (t) => {
  const { run } = benchWith(t, [1])
  const { stdout } = run('--only', 'two', '--json')
  t.strictSame(JSON.parse(stdout).sections, { two: [[{ what: 'second', us: 1 }]] })
  const wrong = run('--only', 'three')
  t.equal(wrong.status, 64)
  t.match(wrong.stderr, /--only .*three[\s\S]*Usage: npm run bench:sample[\s\S]*"one,two"/)
})

t.test('options are typed and checked, and --help shows them', async (t) => {
  const { run } = benchWith(t, [1])
  t.match(run('--only', 'two').stdout, '{"rate":5,"body":"mix","url":"http://a"}')
  t.match(run('--only', 'two', '--rate', '7').stdout, '{"rate":7,')
  for (const [argv, message] of [
    [['--rate', '0'], /'--rate <number>' argument '0' is invalid. Not a number from 1/],
    [['--rate', '1.5'], /--rate .*'1.5'/],
    [['--body', 'text'], /--body .*'text'.* Allowed choices are mix, video/],
    [['--url', 'here'], /--url .*'here' is invalid. An origin/],
    [['--other'], /--other/],
  ] as const) {
    const { status, stderr } = run(...argv)
    t.equal(status, 64)
    t.match(stderr, message)
  }
  const help = run('--help')
  t.equal(help.status, 0)
  t.match(
    help.stdout,
    /npm run bench:sample[\s\S]*--body <string> +A body. \(choices: "mix", "video"/,
  )
})
