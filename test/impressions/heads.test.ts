/** Heads that the listener cannot read are answered as everything else is: by a problem document. */
import { connect } from 'node:net'
import t from 'tap'
import { createAdmin } from '../../admin/server.ts'

const log = { info() {}, warn() {}, error() {} }

t.test('a query beyond 32 KiB, and what is no HTTP', async (t) => {
  const admin = createAdmin({ listen: '127.0.0.1:0', plugins: [], log })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
  const ask = (head: string) =>
    new Promise<string>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
      })
      socket.on('close', () => resolve(answer))
      socket.on('error', () => {})
      socket.write(head)
    })
  for (const [head, status, code] of [
    [`GET /opd/imp?bid_id=${'x'.repeat(40_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431, 'too_large'],
    ['GET /opd/imp?bid id HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'malformed'],
  ] as const) {
    const [top = '', body = ''] = (await ask(head)).split('\r\n\r\n')
    t.match(top, new RegExp(`^HTTP/1.1 ${status} `))
    t.match(top, /^Content-Type: application\/problem\+json$/m)
    t.match(top, /^Cache-Control: no-store$/m)
    t.match(JSON.parse(body), { status, code })
  }
})
