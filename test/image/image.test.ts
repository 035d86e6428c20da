import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { agentLabels, dockerfile as withLabels } from '../../docs/generate/dockerfile.ts'
import { until } from '../support/until.ts'
import { build, instructions, isInstalled, type Stage } from './stages.ts'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const dockerfile = join(root, 'Dockerfile')
const said = (word: string) =>
  instructions(dockerfile)
    .filter((instruction) => instruction.word === word)
    .map((instruction) => instruction.rest)

t.test('one argument pins the base, and nothing else is fetched', async (t) => {
  t.same(said('ARG')[0], 'NODE=node:26-slim')
  const bases = said('FROM').filter((from) => !from.startsWith('scratch'))
  t.ok(bases.every((from) => from.startsWith('${NODE} AS ')))
  t.equal(said('FROM').at(-1), 'scratch', 'the last stage has only what is copied')
  t.same(said('ADD'), [])
})

t.test('it says what it is', async (t) => {
  for (const name of ['title', 'description', 'licenses=Apache-2.0', 'version', 'revision'])
    t.match(said('LABEL')[0], `org.opencontainers.image.${name}`)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  t.ok(said('ARG').includes(`VERSION=${version}`))
})

t.test('an exchange reads from labels what the agent is', async (t) => {
  t.equal(readFileSync(dockerfile, 'utf8'), withLabels(), 'npm run docs')
  const labels = Object.fromEntries(
    [...said('LABEL')[1]!.matchAll(/([\w.-]+)='([^']*)'/g)].map(([, name, value]) => [
      name!,
      value!,
    ]),
  )
  t.same(labels, agentLabels())
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  t.equal(labels['com.iabtechlab.artf.container-version'], version)
  const manifest = JSON.parse(labels['agent-manifest']!)
  t.match(manifest, { name: 'bidweir', version, intents: ['BID_SHADE'] })
  for (const part of ['description', 'resources', 'dependencies', 'health', 'security'])
    t.ok(part in manifest, part)
  t.same(
    JSON.parse(Buffer.from(labels['com.iabtechlab.artf.descriptor']!, 'base64').toString('utf8')),
    manifest,
  )
  t.equal(`${manifest.security.runAsUser}:${manifest.security.runAsUser}`, said('USER')[0])
})

t.test('the image runs as 65532, writes to /data alone, and node is process 1', async (t) => {
  t.same(said('USER'), ['65532:65532'])
  t.same(said('VOLUME'), ['/data'])
  t.same(JSON.parse(said('ENTRYPOINT')[0]!), ['bidweir'])
  t.same(JSON.parse(said('CMD')[0]!), ['start', '--admin', '0.0.0.0:8081'])
  const script = said('RUN').find((line) => line.includes('printf'))!
  t.match(
    script,
    /exec node --max-old-space-size-percentage=25 /,
    'the heap is a part of the memory',
  )
  t.match(script, / --no-memory-reducer /, 'no collection that compacts the heap before a rise')
  t.ok(
    said('RUN')
      .filter((line) => line.includes('npm ci'))
      .every((line) => line.includes('--ignore-scripts')),
  )
})

/** Whether another user may enter every folder above a file. */
function open(path: string): boolean {
  const folder = dirname(path)
  return (statSync(folder).mode & 0o001) !== 0 && (folder === '/' || open(folder))
}

function obstacle(): string | false {
  if (process.getuid?.() !== 0) return 'root not available (chown, setuid)'
  return [process.execPath, join(root, 'Dockerfile')].every(open)
    ? false
    : 'the checkout or its Node is closed to user 65532'
}

const needsRoot = { skip: obstacle() }

const isFolder = (path: string) => existsSync(path) && statSync(path).isDirectory()

/** What `docker build .` would send: .dockerignore lists what is let in. */
function context(into: string): void {
  const lines = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n')
  const allowed = lines
    .filter((line) => line.startsWith('!') && !lines.includes(`${line.slice(1)}/*`))
    .map((line) => line.slice(1))
    .map((name) => `:(glob)${name}${isFolder(join(root, name)) ? '/**' : ''}`)
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...allowed]
  const files = spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout.split('\0')
  for (const file of files.filter((name) => name !== '' && existsSync(join(root, name)))) {
    mkdirSync(dirname(join(into, file)), { recursive: true })
    cpSync(join(root, file), join(into, file))
  }
}

/** The folder of the Node that runs the tests, so that `node` is it. */
const nodePath = `${dirname(process.execPath)}:${process.env['PATH']}`

function bidweir(image: Stage, ...args: string[]): [string, string[], object] {
  const env = { PATH: `${image.root}/usr/local/bin:${nodePath}`, NODE_ENV: 'production' }
  return [
    join(image.root, 'usr/local/bin/bidweir'),
    args,
    { cwd: image.root, env, uid: 65532, gid: 65532 },
  ]
}

t.test('the stages build in a clean folder, and what they make serves', needsRoot, async (t) => {
  const dir = t.testdir({ context: {}, stages: {}, config: {} })
  context(join(dir, 'context'))
  const env = { ...process.env, PATH: nodePath, npm_config_prefer_offline: 'true' }
  const stages = build({
    dockerfile,
    context: join(dir, 'context'),
    into: join(dir, 'stages'),
    env,
    installed: isInstalled(root) ? root : null,
  })
  const image = stages.at(-1)!

  const files = (folder: string): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(image.root.length))
  const all = files(image.root)

  t.test('it has node and a shell, no package manager and no setuid program', async (t) => {
    const programs = all.filter((name) => /\/s?bin\//.test(name) && !name.startsWith('/app/'))
    const ownPrograms = ['/usr/local/bin/bidweir', '/usr/local/bin/node']
    t.same(programs.sort(), ['/bin/cat', '/bin/ls', '/bin/sh', '/bin/tar', ...ownPrograms])
    const ids = all.filter((name) => lstatSync(join(image.root, name)).mode & 0o6000)
    t.same(ids, [])
    t.ok(
      all.some((name) => /\/libc\.so/.test(name)),
      'the libraries of node',
    )
    const shell = spawnSync('chroot', [image.root, '/bin/sh', '-c', 'tar c /etc/passwd | cat'])
    t.match(shell.stdout.toString(), /bidweir:x:65532/, shell.stderr.toString())
    const node = join(image.root, 'usr/local/bin/node')
    rmSync(node)
    copyFileSync(process.execPath, node)
    const version = spawnSync('chroot', [image.root, '/usr/local/bin/node', '--version'])
    t.equal(version.stdout.toString().trim(), process.version, version.stderr.toString())
  })

  t.test('packages bring neither maps nor documents, but their licences', async (t) => {
    const packages = all.filter((name) => name.startsWith('/app/node_modules/'))
    const left = packages.filter((name) => /\.(map|md|ts|mts|cts)$/.test(name))
    t.same(
      left.filter((name) => !/\/licen[cs]e[^/]*$/i.test(name)),
      [],
    )
    t.ok(packages.some((name) => /\/license/i.test(name)))
    t.ok(all.includes('/app/LICENSE'))
  })

  t.test('it is at most 230 MB', async (t) => {
    const bytes = all.reduce((sum, name) => {
      return sum + lstatSync(join(image.root, name)).size
    }, 0)
    t.comment(`${(bytes / 1e6).toFixed(0)} MB`)
    t.ok(bytes <= 230e6)
  })

  t.test('its SBOM has each package that it contains', async (t) => {
    const sbom = JSON.parse(readFileSync(join(image.root, 'app/sbom.cdx.json'), 'utf8'))
    t.equal(sbom.bomFormat, 'CycloneDX')
    const { components } = sbom as { components: { name: string; version: string }[] }
    const listed = new Set(components.map(({ name, version }) => `${name}@${version}`))
    const [hidden] = [join(image.root, 'app/node_modules/.package-lock.json')]
    const { packages } = JSON.parse(readFileSync(hidden, 'utf8')) as {
      packages: Record<string, { name?: string; version: string; optional?: boolean }>
    }
    const missing = Object.entries(packages)
      .map(
        ([path, manifest]) =>
          `${manifest.name ?? path.split('node_modules/').at(-1)}@${manifest.version}`,
      )
      .filter((name) => !listed.has(name))
    t.same(missing, [])
    t.notOk([...listed].some((name) => name.startsWith('typescript@')))
  })

  t.test('scanners find its system packages, and the SBOM has them and Node.js', async (t) => {
    const folder = join(image.root, 'var/lib/dpkg/status.d')
    const packages = readdirSync(folder)
    for (const name of ['libc6', 'dash', 'tar', 'coreutils']) {
      t.ok(packages.includes(name), name)
      const status = readFileSync(join(folder, name), 'utf8').split('\n')
      t.same(status.slice(0, 1), [`Package: ${name}`])
      t.ok(status.includes('Status: install ok installed'), name)
      t.ok(all.includes(`/usr/share/doc/${name}/copyright`), 'its licence')
    }
    const sbom = JSON.parse(readFileSync(join(image.root, 'app/sbom.cdx.json'), 'utf8'))
    const { components } = sbom as { components: { purl: string }[] }
    const purls = components.map(({ purl }) => purl)
    t.ok(purls.includes(`pkg:generic/node@${process.versions.node}`))
    t.ok(
      purls.some((purl) => /^pkg:deb\/debian\/libc6@\S+\?arch=\w+&distro=debian-\d+$/.test(purl)),
    )
    t.notOk('serialNumber' in sbom, 'each build has the same')
    t.notOk('timestamp' in sbom.metadata)
  })

  t.test('it has a compile cache that its user may read', async (t) => {
    const cache = all.filter((name) => name.startsWith('/app/dist/.cache/'))
    t.ok(cache.length > 100, `${cache.length} files`)
    t.ok(cache.every((name) => (statSync(join(image.root, name)).mode & 0o004) !== 0))
    t.match(cache[0], /-65532\//, 'Node.js reads the caches of its own user only')
  })

  t.test('another user reads the compile cache as well', async (t) => {
    const cache = join(image.root, 'app/dist/.cache')
    const [name = ''] = readdirSync(cache)
    const mine = join(dir, 'mine')
    const script = join(root, 'image/compile-cache.mjs')
    const flags = [
      '--max-old-space-size-percentage=25',
      '--enable-source-maps',
      '--no-memory-reducer',
    ]
    const made = spawnSync(
      process.execPath,
      [...flags, script, join(image.root, 'app/dist'), mine],
      // `npm test` has a cache of its own.
      { env: { ...process.env, NODE_COMPILE_CACHE: undefined } },
    )
    t.equal(made.status, 0, made.stderr.toString())
    rmSync(join(cache, name), { recursive: true })
    const [entryName = ''] = readdirSync(mine)
    cpSync(join(mine, entryName), join(cache, entryName.replace(/\d+$/, '65532')), {
      recursive: true,
    })
    // As the Dockerfile does.
    t.equal(spawnSync('chmod', ['-R', 'a+rX', cache]).status, 0)
    const folder = join(dir, 'temporary')
    mkdirSync(folder)
    chownSync(folder, 12345, 12345)
    const [command, args, options] = bidweir(image, 'key', 'new')
    const { env } = options as { env: object }
    const { stderr } = spawnSync(command, args, {
      ...options,
      ...{ uid: 12345, gid: 12345 },
      env: { ...env, TMPDIR: folder, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' },
    })
    t.match(stderr.toString(), /service\/cli\/index\.js.*(accepted|success)/)
    t.same(readdirSync(folder), [], 'nothing is left')
  })

  t.test('neither compiler nor tests are in it', async (t) => {
    t.notOk(existsSync(join(image.root, 'app/node_modules/typescript')))
    t.notOk(existsSync(join(image.root, 'app/node_modules/tap')))
    t.ok(existsSync(join(image.root, 'app/dist/main.js')))
    t.ok(existsSync(join(image.root, 'app/dist/service/demo/serve.js')))
    t.notOk(existsSync(join(image.root, 'app/dist/test')))
    t.equal(statSync(join(image.root, 'data')).uid, 65532)
  })

  t.test('`bidweir key new` prints a key', async (t) => {
    const { stdout, stderr } = spawnSync(...bidweir(image, 'key', 'new'))
    t.match(stdout.toString().trim(), /^[\w-]{43}$/, stderr.toString())
  })

  t.test('`bidweir check` accepts a configuration and refuses a wrong one', async (t) => {
    const file = join(dir, 'config/bidweir.yaml')
    writeFileSync(file, 'suppliers: [{id: acme, endpoints: ["https://a.example/"]}]\n')
    t.equal(spawnSync(...bidweir(image, 'check', '--config', file)).status, 0)
    writeFileSync(file, 'suppliers: [{id: acme, endpoints: 1}]\n')
    const { status, stdout, stderr } = spawnSync(...bidweir(image, 'check', '--config', file))
    t.equal(status, 1)
    t.match(`${stdout}${stderr}`, /suppliers\[0\]\.endpoints/)
  })

  t.test('it starts with nothing but /data to write to, and SIGTERM ends it with 0', async (t) => {
    const file = join(image.root, 'etc/bidweir/bidweir.yaml')
    const listeners = 'proxy: {listen: "127.0.0.1:0"}\nadmin: {listen: "127.0.0.1:0"}\n'
    writeFileSync(file, `${listeners}drain: {grace: 0s, timeout: 10s}\n`)
    chmodSync(image.root, 0o555)
    const [command, args, options] = bidweir(image, 'start', '--config', file)
    const service = spawn(command, args, { ...options, stdio: 'pipe' })
    t.teardown(() => service.kill('SIGKILL'))
    let said = ''
    service.stdout.on('data', (chunk) => {
      said += chunk
    })
    service.stderr.on('data', (chunk) => {
      said += chunk
    })
    const ended = once(service, 'exit')
    await until(() => /127\.0\.0\.1:\d*[1-9]/.test(said) || service.exitCode !== null)
    service.kill('SIGTERM')
    const [code] = await ended
    t.equal(code, 0, said)
    t.ok(existsSync(join(image.root, 'data/bidweir.db')), '/data is beside /etc/bidweir')
  })

  t.test('the demo supplier of the chart runs from it', async (t) => {
    const [, , options] = bidweir(image)
    const serve = join(image.root, 'app/dist/service/demo/serve.js')
    const demo = spawn(process.execPath, [serve, '127.0.0.1', '0'], { ...options, stdio: 'pipe' })
    t.teardown(() => demo.kill('SIGKILL'))
    const [line] = await once(demo.stdout, 'data')
    t.match(JSON.parse(String(line)), { url: /^http:\/\/127\.0\.0\.1:\d+\/openrtb$/ })
    const ended = once(demo, 'exit')
    demo.kill('SIGTERM')
    t.same((await ended)[0], 0)
  })
})
