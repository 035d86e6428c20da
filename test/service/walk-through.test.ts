/** The walk through the API of docs/management-api.md, as pasted, against the embedded default. */
import t from 'tap'
import { defaultConfig } from '../../service/default-config.ts'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { walkThrough } from '../support/readme.ts'
import { serveBidweir } from '../support/served-node.ts'

t.test(
  'token, list, create a buyer, switch it, lower an allotment, see traffic obey',
  async (t) => {
    const supplier = await createDemoSupplier()
    const embedded = defaultConfig(supplier.url)
    // the embedded default, at ports of its own
    const bidweir = await serveBidweir(
      JSON.stringify({
        ...embedded,
        proxy: { listen: '127.0.0.1:0' },
        admin: { ...embedded.admin, listen: '127.0.0.1:0' },
      }),
    )
    t.teardown(async () => {
      await bidweir.stop()
      await supplier.close()
    })
    const api = `http://127.0.0.1:${bidweir.adminPort}`
    await walkThrough(t, {
      ...{ api, bids: `http://127.0.0.1:${bidweir.proxyPort}`, auth: api },
      ...{ login: 'admin', password: bidweir.password! },
    })
  },
)
