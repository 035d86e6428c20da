/** Workers that end, the first process that ends, and a drain (CONTRACT 1 and 2). */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { post, type RawAnswer, raw } from '../../support/raw.ts'
import { echoSupplier, sumOf } from '../../support/service-node.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { timePasses, until } from '../../support/until.ts'
import { isAlive, startWorkers } from '../../support/workers.ts'

async function nodeOf(t: Test, options: { more?: string } = {}) {
  const supplier = await echoSupplier()
  const node = await startWorkers({ endpoint: supplier.url, auth: 'none', ...options })
  t.teardown(() => Promise.all([node.stop('SIGKILL'), supplier.close()]))
  return node
}

const isRefused = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const finish = (refused: boolean) => {
      socket.destroy()
      resolve(refused)
    }
    socket.once('connect', () => finish(false)).once('error', () => finish(true))
  })

t.test('a node whose processes are killed', async (t) => {
  const node = await nodeOf(t)

  t.test('a worker that is killed is replaced; its decisions are found', async (t) => {
    const [pid] = node.workers()
    const bids = []
    for (let n = 0; n < 30; n++) bids.push(await node.bid({ id: `bid-${n}`, price: 2 }))
    const [, before = 0] = await node.requestsByWorker()
    t.ok(before > 0)
    process.kill(pid!, 'SIGKILL')
    await until(async () => sumOf(await node.metrics(), 'bidweir_workers_replaced_total') === 1)
    await until(async () => (await fetch(`${node.admin}/readyz`)).status === 200)
    t.match(node.bidweir.stderr(), /"worker":1.*a worker is replaced/)
    t.not(node.workers()[0], pid)
    for (const { id } of bids) {
      const { body } = await node.notify({ bid_id: id, price: '0.5' })
      t.match(body, { status: 'attributed', by: 'bid_log' })
    }
    await until(async () => {
      await node.bid({ id: 'later', price: 2 })
      return (await node.requestsByWorker())[1]! > before
    })
    const metrics = await node.metrics()
    const [first = 0, second = 0] = await node.requestsByWorker()
    t.equal(sumOf(metrics, 'bidweir_requests_total', 'outcome="answer"'), first + second)
    // The last bids of the worker become part of the rate with its next report.
    const rate = (30 / (first + second)).toFixed(3)
    await until(
      async () => sumOf(await node.metrics(), 'bidweir_win_rate', 'optimised').toFixed(3) === rate,
    )
  })

  t.test('while a worker is replaced the node is not ready, and serves', async (t) => {
    const [pid] = node.workers()
    process.kill(pid!, 'SIGSTOP')
    t.teardown(() => isAlive(pid!) && process.kill(pid!, 'SIGKILL'))
    // The first process goes on without what the worker has not sent.
    const { body } = await node.notify({ bid_id: 'none', price: '0.5' })
    t.equal(body['status'], 'unattributed')
    process.kill(pid!, 'SIGKILL')
    await until(async () => (await fetch(`${node.admin}/readyz`)).status === 503)
    await until(async () => (await fetch(`${node.admin}/readyz`)).status === 200)
    t.equal((await node.bid({ id: 'bid', price: 2 })).id, 'bid')
  })

  t.test('a worker that hangs is killed and replaced; nobody waits for it', async (t) => {
    const [pid] = node.workers()
    const ready = async () => (await fetch(`${node.admin}/readyz`)).status
    const replaced = async () => sumOf(await node.metrics(), 'bidweir_workers_replaced_total')
    const before = await replaced()
    process.kill(pid!, 'SIGSTOP')
    // If each waited for the worker, there were no time for so many notices and scrapes before it is killed.
    let notices = 0
    while ((await replaced()) === before) {
      const { http } = await node.notify({ bid_id: `while it hangs ${notices}`, price: '0.5' })
      t.equal(http, 200)
      notices++
      // Without a pause between two looks: a replacement is soon there.
      if ((await ready()) === 503) break
    }
    t.ok(notices > 10, `${notices} notices before the worker was replaced`)
    t.equal(isAlive(pid!), false)
    t.match(node.bidweir.stderr(), new RegExp(`"pid":${pid},"msg":"a worker does not respond`))
    t.equal(await ready(), 503, 'until the next worker listens')
    await until(async () => (await ready()) === 200)
    const metrics = await node.metrics()
    t.equal(sumOf(metrics, 'bidweir_workers'), 2)
    t.equal(sumOf(metrics, 'bidweir_workers_replaced_total'), before + 1)
    t.not(node.workers()[0], pid)
  })

  t.test('a worker is not killed because the first process was late', async (t) => {
    const [pid] = node.workers()
    const first = node.bidweir.child.pid!
    const before = sumOf(await node.metrics(), 'bidweir_workers_replaced_total')
    process.kill(first, 'SIGSTOP')
    await timePasses(7000, 'longer than a worker may be silent')
    process.kill(first, 'SIGCONT')
    await timePasses(1000, 'the first process checks its workers several times')
    t.equal(sumOf(await node.metrics(), 'bidweir_workers_replaced_total'), before)
    t.equal(node.workers()[0], pid)
  })

  t.test('a port in use refuses the start, also one that several processes share', async (t) => {
    const second = startWorkers({
      endpoint: 'http://127.0.0.1:9',
      listen: `127.0.0.1:${node.bidweir.proxyPort}`,
    })
    await t.rejects(second, /EADDRINUSE/)
  })

  t.test('kill -9 of the first process ends the others', async () => {
    const pids = node.workers()
    const { proxyPort } = node.bidweir
    await node.stop('SIGKILL')
    await until(() => pids.every((pid) => !isAlive(pid)))
    // The last thread of a process closes its sockets.
    await until(() => isRefused(proxyPort))
  })
})

t.test('requests in flight, when a worker is killed and when all processes end', async (t) => {
  const answers: (() => void)[] = []
  const supplier = await httpSupplier((_request, response) => {
    answers.push(() => response.writeHead(204).end())
  })
  const node = await startWorkers({ endpoint: supplier.url, auth: 'none' })
  t.teardown(() => Promise.all([node.stop('SIGKILL'), supplier.close()]))

  /** Requests that are all at the supplier, until `release`. */
  async function inFlight(count = 24) {
    const requests = new Set<Promise<RawAnswer>>()
    let released = false
    const send = () => {
      const body = '{"id":"1","imp":[{"id":"1"}]}'
      const request = raw(node.bidweir.proxyPort, post('/bid/acme', body))
      requests.add(request)
      void request.then(() => {
        // Refused, because the machine is busy.
        if (!released && requests.delete(request)) send()
      })
    }
    for (let n = 0; n < count; n++) send()
    await until(() => answers.length === count)
    return {
      count,
      release() {
        for (const answer of answers.splice(0)) answer()
      },
      /** From now on a response is the end of a request. */
      results() {
        released = true
        return Promise.all(requests)
      },
    }
  }

  t.test('a killed worker costs the requests that it had, nothing else', async (t) => {
    const { count, release, results } = await inFlight()
    t.equal(sumOf(await node.metrics(), 'bidweir_requests_in_flight'), count)
    const ended = results()
    process.kill(node.workers()[0]!, 'SIGKILL')
    release()
    const statuses = (await ended).map(({ status }) => status)
    const lost = statuses.filter((status) => status === 0).length
    t.equal(statuses.filter((status) => status === 204).length, count - lost)
    t.ok(lost > 0 && lost < count, `lost ${lost} of ${count}`)
  })

  t.test('SIGTERM: all processes answer what is in flight, then end', async (t) => {
    await until(async () => sumOf(await node.metrics(), 'bidweir_workers_replaced_total') === 1)
    await until(async () => (await fetch(`${node.admin}/readyz`)).status === 200)
    const before = node.bidweir.stderr().length
    const { release, results } = await inFlight()
    const pids = node.workers()
    const answered = results()
    // As from a terminal or a supervisor, to all processes.
    for (const pid of pids) process.kill(pid, 'SIGTERM')
    const ended = node.stop('SIGTERM')
    await until(() => isRefused(node.bidweir.proxyPort))
    release()
    for (const { status, headers } of await answered) {
      t.equal(status, 204)
      t.equal(headers['connection'], 'close')
    }
    t.equal(await ended, 0)
    t.ok(pids.length > 0 && pids.every((pid) => !isAlive(pid)))
    t.notMatch(node.bidweir.stderr().slice(before), /replaced/)
  })
})

t.test('SIGTERM while a worker hangs: the node ends in order without it', async (t) => {
  const node = await nodeOf(t)
  process.kill(node.workers()[0]!, 'SIGSTOP')
  t.equal(await node.stop('SIGTERM'), 0)
  t.match(node.bidweir.stderr(), /a worker does not respond/)
})
