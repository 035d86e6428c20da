/** Endpoints by DNS: addresses of a name, asked for as often as a supplier says, or the targets of its SRV records. */
import { promises as dns, type LookupAddress, type SrvRecord } from 'node:dns'
import type { DiscoveryConfig, EndpointConfig } from './config.ts'
import { createResolver, type Resolver } from './resolver.ts'

type Asker = Pick<dns.Resolver, 'resolveSrv' | 'resolve4' | 'resolve6'>

function askerOf({ servers }: DiscoveryConfig['dns']): Asker {
  const asker = new dns.Resolver({ timeout: 2000, tries: 2 })
  if (servers.length > 0) asker.setServers(servers)
  return asker
}

/** Addresses by the servers that the supplier names. The resolver of the system knows /etc/hosts as well. */
async function addressesOf(asker: Asker, hostname: string): Promise<LookupAddress[]> {
  const answers = await Promise.allSettled([asker.resolve4(hostname), asker.resolve6(hostname)])
  const found = answers.flatMap((answer, index) =>
    answer.status === 'rejected'
      ? []
      : answer.value.map((address) => ({ address, family: index === 0 ? 4 : 6 })),
  )
  if (found.length === 0 && answers[0].status === 'rejected') throw answers[0].reason
  return found
}

/** The endpoint that a record makes of a configured one: its target and port, with the path. */
function endpointOf(record: SrvRecord, { url, zone, priority }: EndpointConfig): EndpointConfig {
  const target = new URL(url)
  target.hostname = record.name.replace(/\.$/, '')
  target.port = String(record.port)
  return {
    url: target.href,
    // RFC 2782: a weight of 0 has a very small chance.
    weight: Math.max(1, record.weight),
    zone,
    priority: priority * 65_536 + record.priority,
  }
}

interface DiscoveryOptions {
  onError: (hostname: string, error: Error) => void
  /** Called when the endpoints have changed. */
  onChange: () => void
}

export class Discovery {
  readonly config: DiscoveryConfig
  /** For addresses of names. */
  readonly resolver: Resolver
  private readonly asker: Asker
  private readonly options: DiscoveryOptions
  private readonly timer: NodeJS.Timeout | null
  private names: ReadonlySet<string> = new Set()
  /** By name. The last good answer is kept. */
  private readonly records = new Map<string, SrvRecord[]>()
  private closed = false

  constructor(config: DiscoveryConfig, options: DiscoveryOptions) {
    const { type, every, servers } = config.dns
    this.config = config
    this.options = options
    this.asker = askerOf(config.dns)
    const { asker } = this
    this.resolver = createResolver({
      ...{ interval: every, onError: options.onError },
      ...(servers.length === 0
        ? {}
        : { resolve: (hostname: string) => addressesOf(asker, hostname) }),
    })
    this.timer = type === 'SRV' ? setInterval(() => void this.refresh(), every).unref() : null
  }

  /**
   * Asks for the records of these endpoints from now on, at once if a name is new. A discovery by addresses does nothing here.
   *
   * @param configured those of a canary included
   */
  watch(configured: readonly EndpointConfig[]): void {
    if (this.timer === null) return
    const before = this.names
    this.names = new Set(configured.map(({ url }) => new URL(url).hostname))
    if ([...this.names].some((name) => !before.has(name))) void this.refresh()
  }

  /**
   * An endpoint for each record of the configured ones. Until a name has an answer, the endpoint is as configured.
   *
   * @param configured a part of those that are watched
   */
  endpoints(configured: readonly EndpointConfig[]): readonly EndpointConfig[] {
    if (this.timer === null) return configured
    return configured.flatMap((endpoint) => {
      const records = this.records.get(new URL(endpoint.url).hostname)
      return records?.map((record) => endpointOf(record, endpoint)) ?? [endpoint]
    })
  }

  private async refresh(): Promise<void> {
    const { names } = this
    for (const name of this.records.keys()) if (!names.has(name)) this.records.delete(name)
    const changes = await Promise.all([...names].map((name) => this.ask(name)))
    if (!this.closed && changes.includes(true)) this.options.onChange()
  }

  /** Whether the records of a name have changed. */
  private async ask(name: string): Promise<boolean> {
    try {
      const found = await this.asker.resolveSrv(name)
      // RFC 2782: a target of "." says that there is no service.
      const records = found
        .filter((record) => record.name !== '' && record.name !== '.')
        .sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
        .slice(0, maxRecords)
      if (records.length === 0) return false
      const same = JSON.stringify(records) === JSON.stringify(this.records.get(name))
      this.records.set(name, records)
      return !same
    } catch (error) {
      if (!this.closed) this.options.onError(name, error as Error)
      return false
    }
  }

  close(): void {
    this.closed = true
    if (this.timer !== null) clearInterval(this.timer)
    this.resolver.close()
  }
}

/** Records of a name that are used. */
const maxRecords = 256
