/** The worker of a test: sends `calls` requests, each on a connection of its own, sets `sent`, and posts the status of each answer. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { post, raw } from './raw.ts'

interface Task {
  port: number
  sent: Int32Array
  calls: number
}

const { port, sent, calls } = workerData as Task
const sockets = Array.from({ length: calls }, () => connect(port, '127.0.0.1'))
const answers = sockets.map((socket) => raw(port, post('/bid/acme', '1'), undefined, () => socket))
// What a socket holds until it is connected is written before its event.
await Promise.all(sockets.map((socket) => once(socket, 'connect')))
Atomics.store(sent, 0, 1)
Atomics.notify(sent, 0)
parentPort!.postMessage((await Promise.all(answers)).map(({ status }) => status))
