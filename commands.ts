/** What `bidweir COMMAND` does; a new row is the whole change. */
import { parseArgs } from 'node:util'
import { userCommand } from './admin/auth/user-command.ts'
import { openStore } from './admin/store/index.ts'
import { runDemo } from './bench/demo/main.ts'
import { createDemoSupplier, type DemoSupplier } from './bench/demo/supplier.ts'
import { type Config, type ConfigInput, jsonSchema } from './config.ts'
import { check, faultLine, type LoadedConfig, loadConfig } from './config-file.ts'
import { curlLine, demoConfig, embeddedConfig, newKey } from './embedded.ts'
import { createLog } from './log.ts'
import { modelCommand, parseModelArgs } from './model-command.ts'
import { modelsDirOf } from './parts.ts'
import { replayCommand } from './replay-command.ts'
import { flushTime, type Service, startService } from './service.ts'
import { warningsOf } from './settings.ts'

/** EX_CONFIG of sysexits.h. */
const badConfig = 78
const badUsage = 64

const { stdout, stderr } = process

type Run = (argv: string[]) => Promise<number | null>

/** `--config FILE`, or null and a word on stderr where the arguments are others. */
function configOption(argv: string[], wanted: boolean): { file: string | undefined } | null {
  try {
    const { values } = parseArgs({ args: argv, options: { config: { type: 'string' } } })
    if (wanted && values.config === undefined) throw new Error('--config FILE is wanted')
    return { file: values.config }
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return null
  }
}

const tell = (loaded: LoadedConfig, file: string) => {
  for (const fault of loaded.faults) stderr.write(`${faultLine(fault, file)}\n`)
}

interface Running {
  service: Service
  demo: DemoSupplier | null
}

async function begin(
  file: string | undefined,
  configOf = embeddedConfig,
): Promise<Running | number> {
  const demo = file === undefined ? await createDemoSupplier() : null
  const loaded = file === undefined ? check(configOf(demo!.url), '.') : loadConfig(file)
  const { config } = loaded
  if (config === null) {
    tell(loaded, file ?? 'configuration')
    await demo?.close()
    return badConfig
  }
  const log = createLog(config.log.level)
  for (const warning of warningsOf(config)) if (file !== undefined) log.warn({}, warning)
  try {
    const service = await startService({
      loaded: { ...loaded, config },
      again: file === undefined ? null : () => loadConfig(file),
      log,
    })
    return { service, demo }
  } catch (error) {
    stderr.write(`bidweir: it does not start: ${(error as Error).message}\n`)
    await demo?.close()
    return 1
  }
}

/** A terminal's Ctrl-C reaches all of `npm start`, and npm passes its own on as well: one signal, twice. */
const underNpm = process.env['npm_lifecycle_event'] !== undefined && process.stdin.isTTY === true
const npmForwards = 500

/** SIGTERM drains with grace, SIGINT without; a second signal ends at once; the process has `drain.timeout`. */
function stopOnSignals({ service, demo }: Running, before: () => void): void {
  let stopping = Number.POSITIVE_INFINITY
  const stop = (signal: 'SIGTERM' | 'SIGINT') => {
    const since = performance.now() - stopping
    if (since >= 0) {
      if (underNpm && signal === 'SIGINT' && since < npmForwards) return
      process.exit(1)
    }
    stopping = performance.now()
    before()
    const { grace, timeout } = service.config().drain
    const late = setTimeout(() => {
      stderr.write('bidweir: drain.timeout has passed, the rest is cut\n')
      process.exit(0)
    }, timeout)
    late.unref()
    void service
      .stop(signal === 'SIGINT' ? 0 : Math.min(grace, timeout - flushTime(timeout)), timeout)
      .then(() => demo?.close())
      .then(
        () => process.exit(0),
        (error: Error) => {
          stderr.write(`bidweir: the drain failed: ${error.message}\n`)
          process.exit(1)
        },
      )
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal))
}

function greet({ service, demo }: Running, config: Config): void {
  const at = (listen: string, port: number) => `${listen.slice(0, listen.lastIndexOf(':'))}:${port}`
  const lines = [
    `bid traffic   ${config.proxy.tls === undefined ? 'http' : 'https'}://${at(config.proxy.listen, service.proxyPort)}/bid/<supplier>`,
    `admin         http://${at(config.admin.listen, service.adminPort)}/`,
  ]
  const { firstUser } = service
  if (firstUser !== null)
    lines.push(`user          ${firstUser.name}`, `password      ${firstUser.password}`)
  if (demo !== null) lines.push('', curlLine(service.proxyPort), '')
  stdout.write(`${lines.join('\n')}\n`)
}

const start: Run = async (argv) => {
  const options = configOption(argv, false)
  if (options === null) return badUsage
  const running = await begin(options.file)
  if (typeof running === 'number') return running
  stopOnSignals(running, () => {})
  greet(running, running.service.config())
  return null
}

/** Where the demo listens, as the configuration says it; null and a word on stderr for other arguments. */
function demoAddresses(argv: string[]): Pick<ConfigInput, 'proxy' | 'admin'> | null {
  try {
    const options = { listen: { type: 'string' }, admin: { type: 'string' } } as const
    const { listen, admin } = parseArgs({ args: argv, options }).values
    return {
      ...(listen === undefined ? {} : { proxy: { listen } }),
      admin: {
        impressions: { auth: 'context' },
        ...(admin === undefined ? {} : { listen: admin }),
      },
    }
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return null
  }
}

const demo: Run = async (argv) => {
  const addresses = demoAddresses(argv)
  if (addresses === null) return badUsage
  const running = await begin(undefined, (url) => ({ ...demoConfig(url), ...addresses }))
  if (typeof running === 'number') return running
  const over = new AbortController()
  stopOnSignals(running, () => over.abort())
  greet(running, running.service.config())
  const { service } = running
  void runDemo({
    proxyUrl: `http://127.0.0.1:${service.proxyPort}`,
    adminUrl: `http://127.0.0.1:${service.adminPort}`,
    supplier: running.demo!,
    signal: over.signal,
    out: stdout,
  })
  return null
}

const checkCommand: Run = async (argv) => {
  const options = configOption(argv, true)
  if (options === null) return badUsage
  const file = options.file!
  const loaded = loadConfig(file)
  tell(loaded, file)
  if (loaded.config !== null)
    for (const warning of warningsOf(loaded.config)) stdout.write(`warning: ${warning}\n`)
  if (loaded.faults.length > 0) return 1
  stdout.write(`${file}: good, ${loaded.config!.suppliers.length} suppliers\n`)
  return 0
}

const key: Run = async (argv) => {
  if (argv.length !== 1 || argv[0] !== 'new') {
    stderr.write('bidweir: usage: bidweir key new\n')
    return badUsage
  }
  stdout.write(`${newKey()}\n`)
  return 0
}

/** `--config FILE` or `--config=FILE` taken out of arguments that somebody else reads; null: it names no file. */
function withoutConfig(argv: string[]): { file: string | undefined; rest: string[] } | null {
  const at = argv.findIndex((arg) => arg === '--config' || arg.startsWith('--config='))
  if (at < 0) return { file: undefined, rest: argv }
  const joined = argv[at] !== '--config'
  const file = joined ? argv[at]!.slice('--config='.length) : argv[at + 1]
  if (file === undefined || file === '') return null
  return { file, rest: argv.toSpliced(at, joined ? 1 : 2) }
}

const user: Run = async (argv) => {
  const options = withoutConfig(argv)
  if (options === null) {
    stderr.write('bidweir: --config FILE is wanted\n')
    return badUsage
  }
  const { file, rest } = options
  const loaded =
    file === undefined ? check(embeddedConfig('http://127.0.0.1:1/'), '.') : loadConfig(file)
  if (loaded.config === null) {
    tell(loaded, file ?? 'configuration')
    return badConfig
  }
  if ('issuer' in loaded.config.admin.auth) {
    stderr.write('bidweir: the users are those of the external issuer\n')
    return 1
  }
  const log = createLog('error')
  const store = await openStore(loaded.config.store.database, { now: Date.now, log })
  try {
    return await userCommand(rest, { store, stdin: process.stdin, stdout, stderr })
  } finally {
    await store.close()
  }
}

const model: Run = async (argv) => {
  let args: ReturnType<typeof parseModelArgs>
  try {
    args = parseModelArgs(argv)
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return badUsage
  }
  const { config: file } = args
  const loaded =
    file === undefined ? check(embeddedConfig('http://127.0.0.1:1/'), '.') : loadConfig(file)
  if (loaded.config === null) {
    tell(loaded, file ?? 'configuration')
    return badConfig
  }
  const suppliers = new Set(loaded.config.suppliers.map(({ id }) => id))
  const dir = modelsDirOf(loaded.config)
  return modelCommand(args, { dir, suppliers, stdout, stderr })
}

const schema: Run = async () => {
  stdout.write(`${JSON.stringify(jsonSchema(), null, 2)}\n`)
  return 0
}

export const commands: Readonly<Record<string, { usage: string; run: Run }>> = {
  start: { usage: '[--config FILE]', run: start },
  check: { usage: '--config FILE', run: checkCommand },
  user: { usage: 'add NAME [--config FILE] [--role ROLE]… [--account ACCOUNT]', run: user },
  key: { usage: 'new', run: key },
  replay: {
    usage: 'LOG… [--config FILE] [--format table|json] [--warm-up DURATION] [--pending N]',
    run: (argv) => replayCommand(argv, { stdout, stderr }),
  },
  model: {
    usage: 'list|freeze|unfreeze|rollback [ID]|reset --supplier SSP [--config FILE]',
    run: model,
  },
  demo: { usage: '[--listen HOST:PORT] [--admin HOST:PORT]', run: demo },
  schema: { usage: '', run: schema },
}
