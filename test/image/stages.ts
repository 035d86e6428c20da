/**
 * Runs a Dockerfile's stages without an engine: each stage is a folder, COPY copies, RUN runs. Knows what
 * our Dockerfile uses and throws on anything else, so that it can never pass over a line.
 */
import { spawnSync } from 'node:child_process'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'

interface Instruction {
  word: string
  rest: string
}

export function instructions(file: string): Instruction[] {
  return readFileSync(file, 'utf8')
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, word, rest] = /^([A-Z]+) (.*)$/.exec(line)!
      return { word: word!, rest: rest! }
    })
}

export interface Stage {
  name: string
  /** The folder that is used as `/`. */
  root: string
  cwd: string
  env: NodeJS.ProcessEnv
}

interface BuildOptions {
  dockerfile: string
  /** The build context, already filtered by .dockerignore. */
  context: string
  /** Where the stages' folders are made. */
  into: string
  env: NodeJS.ProcessEnv
  /** A folder with the packages that `npm ci` installs of the context's lock file; they are linked or copied instead. */
  installed: string | null
}

/** The RUN lines that install the packages of the lock file, all of them or those of the service. */
const installs = /^npm ci( --omit=dev)?(?: --(?:ignore-scripts|no-fund|no-audit))*$/
/** Types are checked in one thread: each of four reads all declarations, for two and a half times the CPU. */
const compiles = /^node node_modules\/typescript\/bin\/tsc .*$/

interface Package {
  version?: string
  dev?: boolean
  extraneous?: boolean
  optional?: boolean
}

const hidden = 'node_modules/.package-lock.json'
const lockOf = (file: string) =>
  JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Package> }

/** Whether the packages of a checkout are those of its lock file. */
export function isInstalled(checkout: string): boolean {
  if (!existsSync(join(checkout, hidden))) return false
  const present = lockOf(join(checkout, hidden)).packages
  return Object.entries(lockOf(join(checkout, 'package-lock.json')).packages).every(
    ([path, { version, optional }]) =>
      path === '' ||
      present[path]?.version === version ||
      (optional === true && present[path] === undefined),
  )
}

/** What `npm ci --omit=dev` leaves in `folder`: the packages that are no development dependencies, and their list. */
function copyPackages(checkout: string, folder: string): void {
  const { packages, ...lock } = lockOf(join(checkout, hidden))
  const kept = Object.entries(packages).filter(([, { dev, extraneous }]) => !dev && !extraneous)
  const paths = kept.map(([path]) => path)
  const copy = (how: string) =>
    spawnSync('cp', ['-r', how, '--parents', ...paths, folder], { cwd: checkout })
  // Hard links: later lines remove files, and none changes one. From another disk they are copied.
  let copied = copy('--link')
  if (copied.status !== 0) copied = copy('--remove-destination')
  if (copied.status !== 0) throw new Error(String(copied.stderr))
  const list = { ...lock, packages: Object.fromEntries(kept) }
  writeFileSync(join(folder, hidden), JSON.stringify(list))
}

/** Absolute paths of the image that RUN lines name. */
const known =
  /(^|[\s'"=])\/(app|data|empty|image|rootfs|etc\/bidweir|usr\/local\/bin)(?=[\s/'";]|$)/g

/** The launcher names the folder that is `/` in its stage. */
function moved(file: string, from: string, to: string): void {
  if (!statSync(file).isFile() || statSync(file).size > 4096) return
  const text = readFileSync(file, 'utf8')
  if (text.includes(from)) writeFileSync(file, text.replaceAll(from, to))
}

/** Builds all stages; the last one is what would be the image. */
export function build(options: BuildOptions): Stage[] {
  const stages: Stage[] = []
  const last = () => stages.at(-1)!
  const inside = (stage: Stage, path: string) => join(stage.root, resolve(stage.cwd, path))
  const act: Record<string, (rest: string) => void> = {
    FROM(rest) {
      const name = / AS (\S+)$/.exec(rest)?.[1] ?? 'image'
      const root = join(options.into, name)
      const bin = join(root, 'usr/local/bin')
      mkdirSync(bin, { recursive: true })
      if (!rest.startsWith('scratch')) symlinkSync(process.execPath, join(bin, 'node'))
      const { PATH } = options.env
      stages.push({ name, root, cwd: '/', env: { ...options.env, PATH: `${bin}:${PATH}` } })
    },
    WORKDIR(rest) {
      last().cwd = rest
      mkdirSync(inside(last(), '.'), { recursive: true })
    },
    ENV(rest) {
      const separator = rest.indexOf('=')
      last().env[rest.slice(0, separator)] = rest.slice(separator + 1)
    },
    COPY(rest) {
      const flags = new Map(
        [...rest.matchAll(/--(\w+)=(\S+) /g)].map(([, name, value]) => [name!, value!]),
      )
      const stage = stages.find(({ name }) => name === flags.get('from'))
      const words = rest.replace(/--\w+=\S+ /g, '').split(/\s+/)
      const target = inside(last(), words.at(-1)!)
      for (const source of words.slice(0, -1)) {
        const path = stage === undefined ? join(options.context, source) : inside(stage, source)
        // the content of a folder is copied, not the folder
        const into = words.at(-1)!.endsWith('/') && !statSync(path).isDirectory()
        const to = into ? join(target, basename(source)) : target
        mkdirSync(dirname(to), { recursive: true })
        cpSync(path, to, { recursive: true, verbatimSymlinks: true })
        if (stage !== undefined) moved(to, stage.root, last().root)
        const [uid, gid] = (flags.get('chown') ?? '').split(':').map(Number)
        if (gid !== undefined) chownSync(to, uid!, gid)
      }
    },
    RUN(rest) {
      const stage = last()
      const install = installs.exec(rest)
      if (options.installed !== null && install !== null) {
        if (install[1] !== undefined) copyPackages(options.installed, inside(stage, '.'))
        else symlinkSync(join(options.installed, 'node_modules'), inside(stage, 'node_modules'))
        return
      }
      const command = rest
        .replace(compiles, '$& --singleThreaded')
        .replace(known, (_whole, before, path) => `${before}${stage.root}/${path}`)
      // The test runner adds options of its own to every child, and `npm test` a compile cache; the image's build has none.
      const run = spawnSync('sh', ['-c', `unset NODE_OPTIONS NODE_COMPILE_CACHE; ${command}`], {
        cwd: inside(stage, '.'),
        env: stage.env,
        encoding: 'utf8',
      })
      if (run.status !== 0) throw new Error(`RUN ${rest}\n${run.stdout}${run.stderr}`)
    },
  }
  // Said to the engine alone; the tests read these from the file.
  for (const word of [
    'ARG',
    'LABEL',
    'VOLUME',
    'USER',
    'EXPOSE',
    'HEALTHCHECK',
    'ENTRYPOINT',
    'CMD',
  ])
    act[word] = () => undefined
  for (const { word, rest } of instructions(options.dockerfile)) {
    const step = act[word]
    if (step === undefined) throw new Error(`${word} is not known here`)
    step(rest)
  }
  return stages
}
