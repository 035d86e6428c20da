/** The log of the service: off the thread of bids, whole at the end, bounded. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { newFolder } from '../../support/process.ts'

const log = new URL('../../../service/log/log.ts', import.meta.url)
const folder = newFolder()

/** Runs a program that has a `log`; its stderr is read from when it has written to stdout, or has ended. */
async function run(name: string, program: string) {
  const file = join(folder, `${name}.ts`)
  writeFileSync(
    file,
    `import { ServiceLog } from '${log}'\nconst log = new ServiceLog('info')\n${program}`,
  )
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  const read = () =>
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
  child.stdout.on('data', (chunk) => {
    stdout += chunk
    if (stdout.endsWith('\n')) read()
  })
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
    if (name !== 'full') read()
  })
  const lines = stderr
    .split('\n')
    .filter((line) => line.startsWith('{"level"'))
    .map((line) => JSON.parse(line) as { n: number; msg: string })
  return { code, stdout, lines }
}

const text = 'a line that is about as long as those of the service are, or a little longer'
const write = (from: number, to: number) =>
  `for (let n = ${from}; n < ${to}; n++) log.info({ n }, '${text}')\n`
const inOrder = (count: number) => Array.from({ length: count }, (_, n) => n)

t.test('no line is lost, twice or cut at the end of the process, however it ends', async (t) => {
  const ends = {
    exit: `${write(0, 3000)}process.exit(0)`,
    late: `${write(0, 1500)}setTimeout(() => {\n${write(1500, 3000)}process.exit(0)\n}, 50)`,
    crash: `${write(0, 3000)}setTimeout(() => { throw new Error('a defect') }, 1)`,
    natural: write(0, 3000),
  }
  for (const [name, program] of Object.entries(ends)) {
    const { lines, code } = await run(name, program)
    t.same(
      lines.map(({ n }) => n),
      inOrder(3000),
      name,
    )
    t.equal(code, name === 'crash' ? 1 : 0)
  }
})

t.test(
  'a reader that does not read delays nothing; what does not fit is dropped and counted',
  async (t) => {
    // 2 MB: a pipe and the memory for lines have less.
    const { stdout, lines } = await run(
      'full',
      `${write(0, 20_000)}process.stdout.write(String(log.dropped) + '\\n')`,
    )
    const dropped = Number(stdout)
    t.ok(dropped > 0)
    t.equal(lines.length, 20_000 - dropped)
  },
)

t.test('secrets are not logged, and the level can change', async (t) => {
  const { lines } = await run(
    'level',
    `log.info({ token: 'x1', request: { password: 'x2' } }, 'one')
log.level = 'error'
log.warn({}, 'two')
log.error({}, 'three')`,
  )
  t.same(
    lines.map(({ msg }) => msg),
    ['one', 'three'],
  )
  t.notMatch(JSON.stringify(lines), /x[12]/)
})
