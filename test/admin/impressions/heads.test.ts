/** Request heads that the listener cannot read are answered with a problem document. */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { createAdmin } from '../../../admin/http/server.ts'

const log = { info() {}, warn() {}, error() {} }

async function listening(t: Test) {
  const admin = createAdmin({ listen: '127.0.0.1:0', plugins: [], log })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
  return (head: string) =>
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
}

t.test('a query of more than 32 KiB, or bytes that are no HTTP, are refused', async (t) => {
  const ask = await listening(t)
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

t.test('a request has exactly one Host (RFC 9112 3.2)', async (t) => {
  const ask = await listening(t)
  const refused = [
    'GET /x HTTP/1.1\r\n\r\n',
    'GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n',
    'GET /x HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n',
    'GET /x HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n',
  ]
  for (const head of refused) {
    const [top = '', body = ''] = (await ask(head)).split('\r\n\r\n')
    t.match(top, /^HTTP\/1.1 400 /, head)
    t.match(top, /^content-type: application\/problem\+json$/m)
    t.match(JSON.parse(body), { status: 400, code: 'malformed' })
  }
  for (const head of ['1.1\r\nHost: a\r\nConnection: close', '1.0', '1.0\r\nHost: a'])
    t.match(await ask(`GET /x HTTP/${head}\r\n\r\n`), /^HTTP\/1.1 404 /, head)
})
