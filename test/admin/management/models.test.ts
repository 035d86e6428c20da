/** `/api/svc/models/`: operators freeze, roll back and reset the models; every change is audited. */
import { ModelManager } from '../../../opd/state/model-manager.ts'
import { serve } from '../../support/management.ts'
import { newFolder } from '../../support/process.ts'
import { onBoth, silent } from '../../support/store.ts'

onBoth(async (t, database) => {
  const dir = newFolder()
  const { call } = await serve(t, database, dir)
  const post = (verb: string, body?: unknown, who = 'root') =>
    call('POST', `/api/svc/models/${verb}/`, body, who)

  t.test('who may', async (t) => {
    t.equal((await call('GET', '/api/svc/models/', undefined, '')).status, 401)
    t.equal((await call('GET', '/api/svc/models/', undefined, 'nobody')).status, 403)
    t.equal((await post('freeze', {}, 'reader')).status, 403, 'the role operator is needed')
    for (const verb of ['freeze', 'unfreeze', 'rollback'])
      t.match(await post(verb, {}, 'acme'), { status: 403 }, `${verb} concerns every account`)
    t.match(await post('reset', { supplier: 'zeta' }, 'acme'), { status: 404 })
    t.match((await call('GET', '/api/svc/models/', undefined, 'reader')).body, {
      frozen: false,
      models: [
        { mode: 'revenue', epoch: 0, rolled_back_at: null },
        { mode: 'margin', epoch: 0, rolled_back_at: null },
      ],
      resets: {},
      snapshots: [],
    })
  })

  t.test('freeze and unfreeze, with and without a body', async (t) => {
    t.match(await post('freeze'), { status: 200, body: { frozen: true } })
    t.match(await post('freeze', {}), { status: 200, body: { frozen: true } })
    t.match(await post('unfreeze'), { status: 200, body: { frozen: false } })
    t.match(await post('freeze', { supplier: 'acme' }), {
      status: 400,
      body: { errors: [{ pointer: '/supplier' }] },
    })
  })

  t.test('roll back', async (t) => {
    t.match(await post('rollback'), { status: 404, body: { code: 'unknown_snapshot' } })
    const modelManager = new ModelManager({
      dir,
      attributionWindow: 1000,
      now: Date.now,
      log: silent,
    })
    await modelManager.save()
    await modelManager.close()
    t.match(await post('rollback', { id: 'revenue-9' }), { status: 404 })
    const rolledBack = await post('rollback', { id: 'revenue-1' })
    t.match(rolledBack, {
      status: 200,
      body: { models: [{ mode: 'revenue', epoch: 1, rolled_back_at: /^20/ }, { epoch: 0 }] },
    })
    t.equal(rolledBack.body.snapshots.length, 4)
    t.match((await post('rollback')).body.models, [{ epoch: 2 }, { epoch: 1 }], 'both modes')
  })

  t.test('reset, seen by the accounts of the supplier alone', async (t) => {
    t.match(await post('reset', { supplier: 'acme' }, 'acme'), { body: { resets: { acme: 1 } } })
    t.match(await post('reset', { supplier: 'acme' }), { body: { resets: { acme: 2 } } })
    t.same((await call('GET', '/api/svc/models', undefined, 'other')).body.resets, {})
    t.match(await post('reset', {}), { status: 400, body: { errors: [{ pointer: '/supplier' }] } })
  })

  t.test('every change is in the audit trail, once', async (t) => {
    const { body } = await call('GET', '/api/svc/audit/', undefined, 'root')
    const trail = body.map((entry: { action: string; supplier: string }) => [
      entry.action,
      entry.supplier,
    ])
    t.same(trail.reverse(), [
      ['freeze', '*'],
      ['unfreeze', '*'],
      ['rollback', '*'],
      ['rollback', '*'],
      ['reset', 'acme'],
      ['reset', 'acme'],
    ])
    t.match(body[2], { action: 'rollback', after: [{ epoch: 2 }, { epoch: 1 }] })
  })
})
