/** A Redis Cluster and Sentinels with real servers: shared state is found, and is back after a failover. */
import t from 'tap'
import { redisAddress } from '../../../opd/base/redis-address.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { RedisState } from '../../../opd/state/redis.ts'
import { decided } from '../../support/decision-record.ts'
import { learn, modelManagerOf, sumOf } from '../../support/model-sync.ts'
import { ask } from '../../support/redis.ts'
import { absent, type Servers, startCluster, startSentinel } from '../../support/redis-servers.ts'
import { until } from '../../support/until.ts'

const log = { info() {}, warn() {}, error() {} }
const record = (bidId: string) => decided({ id: `d-${bidId}`, bidId })
const open = ({ url }: Servers) =>
  new RedisState({ url, location: 'us', bidTtl: () => 60_000, log, onNodes: () => {} })

/** Bid log, tokens and models of two nodes. */
async function share(one: RedisState, two: RedisState, name: string): Promise<void> {
  await until(() => one.connected && two.connected, { what: 'two connections' })
  const bids = Array.from({ length: 40 }, (_each, n) => `${name}-${n}`)
  for (const bid of bids) one.shared.put(record(bid))
  for (const bid of bids)
    await until(async () => (await two.shared.find(bid))?.[0]?.id === `d-${bid}`, { what: bid })
  let attempts = 0
  const sharesTokens = async () => {
    const request = { rate: 1, depth: 10, wanted: 8, arrived: 8, supplier: `${name}${attempts++}` }
    const grants = []
    for (const node of [one, two])
      grants.push((await node.tokens.ask([request]))?.[0]?.tokens ?? -1)
    return grants[0] === 8 && grants[1]! >= 0 && grants[1]! < 8
  }
  await until(sharesTokens, { what: 'one bucket of tokens' })
  const nodes = [one, two].map((redis) => {
    const modelManager = modelManagerOf(null)
    return { modelManager, modelSync: new ModelSync({ modelManager, bus: redis.models, log }) }
  })
  learn(nodes[0]!.modelManager, 1)
  learn(nodes[1]!.modelManager, 2)
  const rounds = async () => {
    for (const { modelSync } of nodes) await modelSync.round()
    return nodes.every(({ modelManager }) => sumOf(modelManager) >= 3)
  }
  await until(rounds, { what: 'one model' })
  await until(() => nodes.some(({ modelSync }) => modelSync.counts.shared > 0))
  for (const { modelManager, modelSync } of nodes) {
    await modelSync.close()
    await modelManager.close()
  }
}

// They wait for elections.
t.jobs = 4

for (const program of ['redis-server', 'valkey-server']) {
  t.test(`a Cluster of ${program}`, { skip: absent(program) }, async (t) => {
    const servers = await startCluster(program)
    const [one, two] = [open(servers), open(servers)]
    t.teardown(async () => {
      await Promise.all([one.close(), two.close()])
      await servers.close()
    })
    await share(one, two, 'whole')
    t.pass('bids, tokens and models are shared')
  })

  t.test(`Sentinels of ${program}`, { skip: absent(program) }, async (t) => {
    const servers = await startSentinel(program)
    const [one, two] = [open(servers), open(servers)]
    t.teardown(async () => {
      await Promise.all([one.close(), two.close()])
      await servers.close()
    })
    await share(one, two, 'before')
    t.match(await ask(servers.ports[0]!, 'INFO replication'), 'role:master')
    await servers.kill(servers.ports[0]!)
    const works = async () => {
      one.shared.put(record('after'))
      return (await two.shared.find('after'))?.length === 1
    }
    await until(works, { what: 'a new master' })
    await share(one, two, 'failover')
    t.pass('shared again after a failover')
  })
}

t.test('addresses', async (t) => {
  const address = (text: string) => redisAddress(text)
  t.match(address('redis://127.0.0.1'), { kind: 'server', tls: false, hosts: [{ port: 6379 }] })
  t.match(address('rediss://u:p%40@h:1/3'), {
    ...{ tls: true, username: 'u', password: 'p@', database: 3 },
  })
  t.match(address('redis+sentinel://:pw@a:1,b/main/2'), {
    ...{ kind: 'sentinel', name: 'main', database: 2, password: 'pw' },
    hosts: [
      { host: 'a', port: 1 },
      { host: 'b', port: 26379 },
    ],
  })
  t.match(address('rediss+cluster://a:1,[::1]:2'), {
    ...{ kind: 'cluster', tls: true },
    hosts: [{ host: 'a' }, { host: '::1', port: 2 }],
  })
  for (const text of [
    'redis://',
    'http://h',
    'redis://a,b',
    'redis+sentinel://a:1',
    'redis+cluster://a:1/2',
    'redis://h:70000',
    'redis://h/x',
  ])
    t.equal(address(text), null, text)
})
