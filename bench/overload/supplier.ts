/**
 * A supplier with an unbounded queue and slots that are busy for the service time of a request. It is a process of its own:
 * `supplier.ts SLOTS MILLISECONDS SIGMA CANCELS`. With SIGMA above 0 the service time is lognormal around its mean; with
 * CANCELS, a request whose connection was closed leaves queue and slot.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { lognormal } from './simulated.ts'

const [slots = 4, mean = 100, sigma = 0] = process.argv.slice(2, 5).map(Number)
const cancels = process.argv[5] === 'cancels'

const serviceTime = lognormal(mean, sigma, 1)
const queue: ServerResponse[] = []
let busy = 0

function work(): void {
  while (busy < slots && queue.length > 0) {
    const response = queue.shift()!
    if (cancels && response.destroyed) continue
    busy++
    let done = false
    const free = () => {
      if (done) return
      done = true
      busy--
      work()
    }
    setTimeout(() => {
      if (!response.destroyed) response.end('{"id":"r","seatbid":[]}')
      free()
    }, serviceTime())
    if (cancels) response.on('close', free)
  }
}

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    response.setHeader('Content-Type', 'application/json')
    queue.push(response)
    work()
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', 4096, () => process.send?.((server.address() as AddressInfo).port))
