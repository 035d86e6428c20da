/** `bidweir start` and `bidweir demo`: run the service until a signal ends it. */
import { check } from '../config/check.ts'
import { createLoad } from '../config/loader.ts'
import type { ConfigInput } from '../config/schema.ts'
import { warningsOf } from '../config/warnings.ts'
import { LoopWatch } from '../debug/loop-watch.ts'
import { defaultConfig, demoConfig } from '../default-config.ts'
import type { DemoSupplier } from '../demo/supplier.ts'
import { ServiceLog } from '../log/log.ts'
import { flushTime, type Service, startService } from '../service.ts'
import { InUseError, lockState } from '../state-lock.ts'
import { printFaults } from './command.ts'
import { badConfig, CommandError, inUse } from './exit-codes.ts'

const { stdout, stderr } = process

interface Running {
  service: Service
  demo: DemoSupplier | null
}

const signals = ['SIGTERM', 'SIGINT'] as const
/** Without a file there is nothing to reload: SIGHUP then says that the terminal was closed. */
const signalsOf = (file: string | undefined) =>
  file === undefined ? ([...signals, 'SIGHUP'] as const) : signals
/** Process 1 of a container ignores signals without a handler, and a start may wait for a database. */
const exitNow = () => process.exit(0)

/** Advice if the state or an address is in use. */
const conflictAdvice = {
  start:
    'stop the other process, or give this one its own --listen HOST:PORT and --admin HOST:PORT, and its own stateDir (--config FILE)',
  demo: `stop the other process, or give this one its own --state DIR, --listen HOST:PORT and --admin HOST:PORT:
  npm run demo -- --state data/demo --listen 127.0.0.1:8280 --admin 127.0.0.1:8281`,
}

/** Bid requests a second of the supplier of a scenario. */
const scenarioRate = 50

// Not loaded where the service has suppliers of its own.
const demoSupplier = async (): Promise<DemoSupplier> =>
  (await import('../demo/supplier.ts')).createDemoSupplier()

async function startProcess(
  file: string | undefined,
  command: keyof typeof conflictAdvice,
  configOf = defaultConfig,
): Promise<Running> {
  for (const signal of signalsOf(file)) process.on(signal, exitNow)
  const demo = file === undefined ? await demoSupplier() : null
  const load = file === undefined ? null : createLoad(file)
  const loaded = load === null ? check(configOf(demo!.url), '.') : await load()
  const { config } = loaded
  if (config === null) {
    printFaults(loaded, file ?? 'configuration')
    await demo?.close()
    throw new CommandError(badConfig, '')
  }
  const log = new ServiceLog(config.log.level)
  for (const warning of warningsOf(config)) if (file !== undefined) log.warn({}, warning)
  try {
    lockState(config.stateDir, config.store.database)
    const service = await startService({
      loaded: { ...loaded, config },
      load,
      log,
      watch: new LoopWatch(log),
    })
    return { service, demo }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    const locked = error instanceof InUseError
    const advice = locked || code === 'EADDRINUSE' ? `; ${conflictAdvice[command]}` : ''
    await demo?.close()
    throw new CommandError(locked ? inUse : 1, `the service does not start: ${message}${advice}`)
  }
}

interface Addresses {
  listen?: string | undefined
  admin?: string | undefined
  /** The state folder. */
  state?: string | undefined
}

/** An embedded configuration with addresses of the command line. */
const withAddresses = (config: ConfigInput, { listen, admin, state }: Addresses): ConfigInput => ({
  ...config,
  ...(listen === undefined ? {} : { proxy: { listen } }),
  ...(admin === undefined ? {} : { admin: { ...config.admin, listen: admin } }),
  ...(state === undefined ? {} : { stateDir: state }),
})

/** Ctrl-C in a terminal reaches this process and npm, and npm forwards its own: the signal arrives twice. */
const underNpm = process.env['npm_lifecycle_event'] !== undefined && process.stdin.isTTY === true
const npmForwards = 500

/**
 * SIGTERM drains with grace, SIGINT and a closed terminal without. A second signal exits at once. `drain.timeout` limits
 * the drain.
 */
function stopOnSignals(
  { service, demo }: Running,
  file: string | undefined,
  before: () => void,
): void {
  let stopping = Number.POSITIVE_INFINITY
  const stop = (signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP') => {
    const since = performance.now() - stopping
    if (since >= 0) {
      // The kernel and the shell both send it.
      if (signal === 'SIGHUP') return
      if (underNpm && signal === 'SIGINT' && since < npmForwards) return
      process.exit(1)
    }
    stopping = performance.now()
    before()
    const { grace, timeout } = service.config().drain
    const late = setTimeout(() => {
      stderr.write('bidweir: drain.timeout has passed: the remaining requests are cut off\n')
      process.exit(0)
    }, timeout)
    late.unref()
    void service
      .stop(signal === 'SIGTERM' ? Math.min(grace, timeout - flushTime(timeout)) : 0, timeout)
      .then(() => demo?.close())
      .then(
        () => process.exit(0),
        (error: Error) => {
          stderr.write(`bidweir: the drain failed: ${error.message}\n`)
          process.exit(1)
        },
      )
  }
  for (const signal of signalsOf(file)) {
    process.off(signal, exitNow)
    process.on(signal, () => stop(signal))
  }
}

/** An address that can be opened: `0.0.0.0` and `[::]` are all addresses of the machine, and no link. */
function linkTo(listen: string, port: number, use: string) {
  const host = listen.slice(0, listen.lastIndexOf(':'))
  const anywhere = host === '0.0.0.0' || host === '[::]' || host === ''
  return {
    address: `${anywhere ? '127.0.0.1' : host}:${port}`,
    note: anywhere ? ` (${use} on every address of this machine)` : '',
  }
}

/** A shell command that sends one bid request, printed at the first start. */
function curlLine(proxyPort: number): string {
  const request = {
    id: 'curl-1',
    imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5, tagid: 'top' }],
    site: { domain: 'news.example', publisher: { id: 'pub-1' } },
    tmax: 200,
  }
  return `curl -s http://127.0.0.1:${proxyPort}/bid/demo -H 'Content-Type: application/json' -d '${JSON.stringify(request)}'`
}

function printAddresses({ service, demo }: Running): void {
  const config = service.config()
  const scheme = config.proxy.tls === undefined ? 'http' : 'https'
  const supplier = demo === null ? '<supplier>' : 'demo'
  const bids = linkTo(config.proxy.listen, service.proxyPort, 'POST,')
  const admin = linkTo(config.admin.listen, service.adminPort, 'open')
  const lines = [
    `bid traffic   ${scheme}://${bids.address}/bid/${supplier}${bids.note}`,
    `admin         http://${admin.address}/${admin.note}`,
  ]
  const { listen } = config.notices
  if (listen !== null)
    lines.push(`win notices   http://${linkTo(listen, service.noticesPort!, '').address}/opd/imp`)
  const { agent } = config
  if (agent !== null)
    lines.push(`agent         grpc://${linkTo(agent.listen, service.agentPort!, '').address}`)
  const { firstUser } = service
  if (firstUser !== null)
    lines.push(
      `user          ${firstUser.name}`,
      `password      ${firstUser.password ?? 'as admin.auth.embedded.adminPassword gives it'}`,
    )
  if (demo !== null) lines.push('', curlLine(service.proxyPort), '')
  stdout.write(`${lines.join('\n')}\n`)
}

/** The addresses are those of the listeners if there is no file. */
export async function start(file: string | undefined, addresses: Addresses): Promise<void> {
  const running = await startProcess(file, 'start', (url) =>
    withAddresses(defaultConfig(url), addresses),
  )
  stopOnSignals(running, file, () => {})
  printAddresses(running)
}

export async function demo({
  scenario,
  ...addresses
}: Addresses & { scenario?: string }): Promise<void> {
  const { scenarios, scenariosOf, withScenarios } = await import('../demo/scenarios.ts')
  const added = scenariosOf(scenario)
  const running = await startProcess(undefined, 'demo', (url) =>
    withAddresses(withScenarios(demoConfig(url, addresses.state), url, added), addresses),
  )
  const over = new AbortController()
  stopOnSignals(running, undefined, () => over.abort())
  printAddresses(running)
  const { service } = running
  const adminUrl = `http://127.0.0.1:${service.adminPort}`
  const { story } = await import('../demo/figures.ts')
  const { runDemo } = await import('../demo/main.ts')
  stdout.write(story(`${adminUrl}/#/supplier/demo`))
  for (const id of added)
    stdout.write(`Also ${scenarios[id]!.name}, /bid/${id}: ${scenarios[id]!.text}\n`)
  const options = {
    proxyUrl: `http://127.0.0.1:${service.proxyPort}`,
    supplier: running.demo!,
    signal: over.signal,
    adminUrl,
  }
  void runDemo({ ...options, figures: () => service.figures('demo'), out: stdout })
  for (const id of added) {
    const { notice } = scenarios[id]!
    void runDemo({ ...options, ssp: id, rate: scenarioRate, changeNotice: notice })
  }
}
