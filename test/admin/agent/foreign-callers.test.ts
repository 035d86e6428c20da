/** The agent listener, called by gRPC libraries of others: Google's for Python, and grpc-go. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { callOf, decodeAnswer, encodeCall } from '../../support/agent.ts'
import { agentPeer, agentPeerAbsent } from '../../support/agent-peer.ts'
import { protobufAbsent, protobufPython } from '../../support/google-protobuf.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'

const support = join(import.meta.dirname, '../../support')
const schemas = join(import.meta.dirname, '../../../opd/agent/proto')

const supplier = await echoSupplier()
const node = await serveNode({
  endpoint: supplier.url,
  // The second one: its model has seen no bid without a win yet, and lowers each.
  suppliers: ['acme', 'go'].map((id) => `id: ${id}, opd: {enabled: true, holdout: 0, explore: 0}`),
  more: 'agent: {listen: "127.0.0.1:0", timeout: 60s}',
})
const port = node.bidweir.agentPort!
t.teardown(async () => {
  await node.stop()
  await supplier.close()
})

/** The output of a program, which has `input` on its stdin. */
async function outputOf(
  program: string,
  args: readonly string[],
  input: Uint8Array = new Uint8Array(),
) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stdin.end(input)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${program} ended with ${code}`)
  return Buffer.concat(chunks)
}

t.test(
  "Google's gRPC for Python gets prices, health and errors",
  { skip: protobufAbsent },
  async (t) => {
    const script = join(support, 'google-grpc.py')
    const out = JSON.parse(String(await outputOf(protobufPython, [script, schemas, String(port)])))
    for (const name of ['published', 'printed']) {
      t.match(out[name], {
        id: name,
        intent: 'BID_SHADE',
        op: 'OPERATION_REPLACE',
        path: `/seatbid/s1/bid/bid-${name}`,
        api: '1.0',
      })
      t.ok(out[name].price >= 1 && out[name].price < 2.4, `${out[name].price}`)
    }
    const [answers, mutations] = out.concurrent
    t.equal(answers, 400, 'each call has its own answer')
    // the first 300 bids of a supplier are lowered without a notice, later ones hardly
    t.ok(mutations > 280, `${mutations} prices`)
    t.equal(out.malformed, 'INVALID_ARGUMENT')
    t.equal(out.long, 'RESOURCE_EXHAUSTED')
    t.equal(out.unknown, 'UNIMPLEMENTED')
    t.equal(out.check, '0801', 'SERVING')
    t.equal(out.watch, '0801', 'SERVING')
  },
)

const methods = [
  '/com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint/GetMutations',
  '/com.iabtechlab.bidstream.mutation.v1.RTBExtensionPoint/GetMutations',
]
t.test('grpc-go gets prices under both names', { skip: agentPeerAbsent }, async (t) => {
  for (const method of methods) {
    const args = ['call', `127.0.0.1:${port}`, method]
    const call = encodeCall(callOf({ originator: { id: 'go' } }))
    const answer = decodeAnswer(await outputOf(agentPeer, args, call))
    t.equal(answer.id, 'call-1')
    const [mutation] = answer.mutations
    t.match(mutation, { intent: 'BID_SHADE', path: '/seatbid/seat-1/bid/bid-1' })
    const price = mutation?.adjust_bid.price ?? 0
    t.ok(price >= 1 && price < 2.4, `${price}`)
  }
})

t.test(
  'each call of grpc-go on several connections is answered',
  { skip: agentPeerAbsent },
  async (t) => {
    const args = ['load', `127.0.0.1:${port}`, '200', '2', '3', '1']
    const figures = JSON.parse(String(await outputOf(agentPeer, args, encodeCall(callOf()))))
    t.equal(figures.failed, 0)
    t.ok(figures.calls > 100, `${figures.calls} calls`)
  },
)
