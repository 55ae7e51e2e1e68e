import fc from 'fast-check'
import { test } from 'tap'
import { apiPath, pathOf, placeOfPath, queryOf } from '../../../src/console/page/paths.ts'

test('a place and its path lead to one another', async (t) => {
  t.equal(pathOf('acme'), '/console/acme/overview')
  t.equal(pathOf('acme', 'routes', 'acme.voice'), '/console/acme/routes/acme.voice')
  t.equal(pathOf(null, 'workspaces'), '/console/workspaces')
  t.equal(placeOfPath('/console'), null)
  t.equal(placeOfPath('/console/'), null)
  t.same(placeOfPath('/console/acme'), { workspace: 'acme', view: 'overview', rest: [] })
  t.same(placeOfPath('/console/acme/routes/acme.voice'), {
    workspace: 'acme',
    view: 'routes',
    rest: ['acme.voice'],
  })
  t.same(placeOfPath('/console/audit'), { workspace: null, view: 'audit', rest: [] })
  t.same(placeOfPath('/console/workspaces/acme'), { workspace: null, view: 'workspaces', rest: ['acme'] })
})

test('no name of a workspace hides a view, and none is hidden by one', async (t) => {
  t.equal(pathOf('api', 'keys'), '/console/~api/keys')
  t.equal(pathOf('providers'), '/console/~providers/overview')
  const name = fc.oneof(
    fc.constantFrom('api', 'assets', 'audit', 'overview', 'providers', 'requests', 'setup', 'workspaces'),
    fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/),
  )
  const rest = fc.array(fc.string({ minLength: 1 }))
  fc.assert(
    fc.property(name, fc.constantFrom('overview', 'routes', 'audit'), rest, (workspace, view, more) => {
      t.strictSame(placeOfPath(pathOf(workspace, view, ...more)), { workspace, view, rest: more })
    }),
    { numRuns: 200 },
  )
})

test('an address that was mistyped is no fault', async (t) => {
  t.same(placeOfPath('/console/acme/%E0%A4%A'), { workspace: 'acme', view: '%E0%A4%A', rest: [] })
})

test('paths and queries of the API are encoded', async (t) => {
  t.equal(apiPath`/workspaces/${'a/b'}/routes/${'x?y'}`, '/workspaces/a%2Fb/routes/x%3Fy')
  t.equal(
    queryOf({ workspace: null, since: 0, app: '', outcome: 'failed & more' }),
    '?since=0&outcome=failed+%26+more',
  )
  t.equal(queryOf({ below: undefined }), '')
})
