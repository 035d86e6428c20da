/** Where the agent listens if the configuration does not say it: exchanges name the port by SERVER_PORT. */
import t from 'tap'
import { check } from '../../../service/config/check.ts'

/** The agent's address, or the faults, with a value of SERVER_PORT. */
function addressWith(port: string | undefined, agent: object = {}) {
  const before = process.env['SERVER_PORT']
  if (port === undefined) delete process.env['SERVER_PORT']
  else process.env['SERVER_PORT'] = port
  try {
    const { config, faults } = check({ agent }, '.')
    return config?.agent?.listen ?? faults.map(({ path, found }) => `${path}: ${found}`)
  } finally {
    if (before === undefined) delete process.env['SERVER_PORT']
    else process.env['SERVER_PORT'] = before
  }
}

t.test('SERVER_PORT is the port of the agent', async (t) => {
  t.equal(addressWith('9000'), '0.0.0.0:9000')
  t.equal(addressWith(undefined), '0.0.0.0:50051')
  t.equal(addressWith(''), '0.0.0.0:50051')
})

t.test('an address in the configuration wins', async (t) => {
  t.equal(addressWith('9000', { listen: '127.0.0.1:7' }), '127.0.0.1:7')
})

t.test('a SERVER_PORT that is no port is a fault', async (t) => {
  for (const port of ['http', '70000', '-1'])
    t.same(addressWith(port), [`agent.listen: nothing, and SERVER_PORT is "${port}"`])
})

t.test('the agent has an address of its own', async (t) => {
  const { faults } = check({ agent: { listen: '0.0.0.0:8080' } }, '.')
  t.match(faults, [{ path: 'agent.listen', found: '0.0.0.0:8080, which proxy.listen uses' }])
})
