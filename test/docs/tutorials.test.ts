/**
 * The tutorials as a reader pastes them: the `sh` blocks of a page run in order, in one shell and an empty folder, and
 * each `text` block is what the block before it prints (`…` matches anything). Each page has a network of its own, so
 * that the fixed ports of the tutorials never meet those of another program.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { needsHelm } from '../chart/helm.ts'
import { protobufAbsent, protobufPython } from '../support/google-protobuf.ts'
import { keycloakAbsent, keycloakCommand, ownKeycloak } from '../support/keycloak.ts'
import { namespace, namespaceAbsent } from '../support/network.ts'
import { postgresAbsent, postgresPrograms } from '../support/postgres.ts'
import { redisAbsent } from '../support/redis.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = join(root, 'docs/tutorials')

interface Server {
  absent: string | false
  /** Shell that starts the server inside the namespace and waits until it answers. */
  start: (state: string, t: Test) => string
}

/** PostgreSQL refuses to run as root. */
const asPostgres =
  process.getuid?.() === 0 ? 'setpriv --reuid=postgres --regid=postgres --clear-groups ' : ''

/** The servers that a page asks for with `<!-- needs: … -->`: what its readers have running before they begin. */
const servers: Readonly<Record<string, Server>> = {
  postgres: {
    absent: postgresAbsent,
    start: (state) => `
      ${asPostgres === '' ? '' : `chown postgres ${state}`}
      ${asPostgres}${postgresPrograms()}/initdb -D ${state}/postgres -U bidweir -A trust --no-sync >/dev/null
      (cd ${state}; exec ${asPostgres}${postgresPrograms()}/postgres -D ${state}/postgres -k ${state} -h 127.0.0.1 >${state}/postgres.log 2>&1) &
      until ${postgresPrograms()}/pg_isready -q -h 127.0.0.1; do sleep 0.1; done
      ${postgresPrograms()}/createdb -h 127.0.0.1 -U bidweir bidweir`,
  },
  redis: {
    absent: redisAbsent,
    start: (state) => `
      redis-server --save '' --dir ${state} >${state}/redis.log &
      until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done`,
  },
  keycloak: {
    absent: keycloakAbsent,
    start: (_state, t) => {
      const keycloak = ownKeycloak('root')
      t.teardown(() => rmSync(keycloak, { recursive: true, force: true }))
      const { command, args, env } = keycloakCommand(keycloak, 8180)
      return `
      ${Object.entries(env)
        .map(([name, value]) => `${name}='${value}'`)
        .join(' ')} ${command} ${args.join(' ')} >${keycloak}/log 2>&1 &
      until curl -sf http://127.0.0.1:8180/realms/master >/dev/null; do sleep 0.5; done`
    },
  },
  helm: { absent: needsHelm.skip, start: () => '' },
  grpcio: { absent: protobufAbsent, start: () => `export PATH=${dirname(protobufPython)}:$PATH` },
}

interface Block {
  kind: 'sh' | 'text'
  body: string
  line: number
}

function blocksOf(page: string): Block[] {
  return [...page.matchAll(/^```(sh|text)\n([\s\S]*?)^```$/gm)].map((match) => ({
    kind: match[1] as Block['kind'],
    body: match[2]!,
    line: page.slice(0, match.index).split('\n').length,
  }))
}

const mark = (block: Block) => `=== line ${block.line} ===`

/** The shell of a page: every block after a line that names it. */
const scriptOf = (blocks: readonly Block[]) =>
  blocks
    .filter(({ kind }) => kind === 'sh')
    .map((block) => `echo '${mark(block)}'\n${block.body}`)
    .join('')

/** The next page, in the same terminal, starts bidweir on the same ports. */
const portsAreFree = `for port in 8080 8081 8082; do
  ! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null || { echo "port $port is in use after the page"; exit 1; }
done
`

const pattern = (line: string) =>
  new RegExp(
    line
      .trim()
      .split('…')
      .map((part) => RegExp.escape(part))
      .join('.*'),
  )

/** Every line of a `text` block is in the output of the block before it, in this order. */
function checkOutput(t: Test, blocks: readonly Block[], out: string) {
  let before: Block | undefined
  for (const block of blocks) {
    if (block.kind === 'sh') before = block
    else {
      const printed = out.split(`${mark(before!)}\n`)[1]?.split('\n=== line ')[0] ?? ''
      let rest = printed.split('\n')
      for (const line of block.body.split('\n').filter((text) => text.trim() !== '')) {
        const index = rest.findIndex((text) => pattern(line).test(text))
        if (index < 0) {
          t.fail(`line ${block.line}: "${line}" is not in the output`, { printed })
          return
        }
        rest = rest.slice(index + 1)
      }
      t.pass(`the output that line ${block.line} shows`)
    }
  }
}

/** Installs `bidweir` as docs/tutorials/README.md says, in a home of its own. */
function install(home: string): void {
  const page = readFileSync(join(folder, 'README.md'), 'utf8')
  const [{ body }] = blocksOf(page) as [Block]
  const done = spawnSync('bash', ['-eu', '-c', body], {
    cwd: root,
    env: { ...process.env, HOME: home },
  })
  if (done.status !== 0) throw new Error(`the installation failed: ${done.stderr}`)
}

/** Variables of this process, of those that are set. */
const given = (...names: string[]) =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

function run(
  script: string,
  cwd: string,
  home: string,
): Promise<{ code: number | null; out: string }> {
  return new Promise((resolve, reject) => {
    const file = join(home, 'script')
    writeFileSync(file, `ip link set lo up\n${script}`)
    // a namespace of processes as well: they end with the shell, whatever they are
    const isolation = [...namespace, '--pid', '--fork', '--kill-child', '--mount-proc']
    const child = spawn('unshare', [...isolation, 'bash', '-eu', '-o', 'pipefail', file], {
      cwd,
      env: {
        PATH: `${home}/.local/bin:${process.env['PATH'] ?? ''}`,
        HOME: home,
        CHECKOUT: root,
        ...given('JAVA_HOME', 'NODE_COMPILE_CACHE'),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        out += chunk
      })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, out }))
  })
}

const newFolder = () => mkdtempSync(join(tmpdir(), 'bidweir-tutorial-'))

t.jobs = 3
/** One page: `node test/docs/tutorials.test.ts 05`. */
const only = process.argv[2] ?? ''
for (const name of readdirSync(folder).filter(
  (name) => /^\d.*\.md$/.test(name) && name.startsWith(only),
)) {
  const page = readFileSync(join(folder, name), 'utf8')
  const needs = /<!-- needs: (.*) -->/.exec(page)?.[1]?.split(' ') ?? []
  const skip =
    [namespaceAbsent, ...needs.map((need) => servers[need]!.absent)].find(Boolean) ?? false
  t.test(name, { skip }, async (t) => {
    const [cwd, home, state] = [newFolder(), newFolder(), newFolder()]
    t.teardown(() => {
      for (const folder of [cwd, home, state]) rmSync(folder, { recursive: true, force: true })
    })
    install(home)
    const blocks = blocksOf(page)
    const start = needs.map((need) => servers[need]!.start(state, t)).join('\n')
    const { code, out } = await run(`${start}\n${scriptOf(blocks)}${portsAreFree}`, cwd, home)
    t.equal(code, 0, code === 0 ? 'every block succeeds' : out.split('\n').slice(-40).join('\n'))
    checkOutput(t, blocks, out)
  })
}
