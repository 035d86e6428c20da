/** Calls of `/api/svc/suppliers/`, and bids of the suppliers that they make. */
interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  body: any
}

interface Node {
  api(path: string, init?: RequestInit & { headers?: Record<string, string> }): Promise<Response>
  bidweir: { proxyPort: number }
}

const root = '/api/svc/suppliers/'

export const suppliersOf = (node: Node) => {
  async function call(
    method: string,
    path = '',
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const response = await node.api(root + path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': type }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? null : JSON.parse(text),
    }
  }
  return {
    call,
    /** With the ETag of now. */
    async change(method: string, id: string, body?: unknown, query = '') {
      const { headers } = await call('GET', `${id}/`)
      return call(method, `${id}/${query}`, body, { 'if-match': headers.get('etag') ?? '' })
    },
    /** The status of a bid request. */
    async bid(id: string) {
      const response = await fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/${id}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"id":"q","imp":[{"id":"1"}],"ext":{"bids":[]}}',
      })
      await response.body?.cancel()
      return response.status
    },
  }
}
