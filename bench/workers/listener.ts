/** Processes that share a listener in one of three ways; counts the connections of each. A child process. */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const [way, count] = process.argv.slice(2) as [string, string]
const backlog = 8192

function listen(port: number): void {
  let accepted = 0
  const server = createServer((socket) => {
    accepted++
    socket.on('error', () => {})
    socket.write('1')
  })
  server.listen({ port, host: '127.0.0.1', backlog, reusePort: way === 'SO_REUSEPORT' }, () =>
    process.send!((server.address() as AddressInfo).port),
  )
  process.on('message', () => {
    process.send!(accepted)
    accepted = 0
  })
}

async function start(): Promise<void> {
  cluster.schedulingPolicy = way === 'round robin' ? cluster.SCHED_RR : cluster.SCHED_NONE
  const workers: Worker[] = []
  let port = 0
  for (let n = 0; n < Number(count); n++) {
    // With 0, node:cluster gives all workers the same port.
    const worker = cluster.fork({ PORT: way === 'SO_REUSEPORT' ? port : 0 })
    port = (await once(worker, 'message'))[0] as number
    workers.push(worker)
  }
  process.on('message', async () => {
    const counts = workers.map(async (worker) => {
      worker.send('count')
      return (await once(worker, 'message'))[0] as number
    })
    process.send!(await Promise.all(counts))
  })
  process.send!(port)
}

if (cluster.isPrimary) await start()
else listen(Number(process.env['PORT']))
