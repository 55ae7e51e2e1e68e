import t from 'tap'
import type { AppFields } from '../../../src/catalog/file.ts'
import { appFields, appForm, newNameIssue } from '../../../src/console/page/views/apps/forms.ts'

const FIELDS: AppFields = {
  route: 'acme.voice',
  capability_routes: { audio_output: 'acme.speech' },
  purposes: { calls: 'acme.calls' },
}

t.test('an app that is loaded and saved leads where it did', async (t) => {
  t.same(appFields(appForm('web', FIELDS)), FIELDS)
  t.same(appFields(appForm('web', { route: 'acme.voice' })), { route: 'acme.voice' })
})

t.test('what leads nowhere is left out', async (t) => {
  const form = {
    ...appForm('web', FIELDS),
    capabilityRoutes: { audio_output: '', text: 'acme.chat' },
    purposes: { calls: '' },
  }
  t.same(appFields(form), { route: 'acme.voice', capability_routes: { text: 'acme.chat' } })
})

t.test('a new name can be told from the others', async (t) => {
  t.equal(newNameIssue('web.2', ['web']), null)
  for (const name of ['', 'web', '.web', 'a b', '<i>', 'x'.repeat(65)])
    t.type(newNameIssue(name, ['web']), 'string', JSON.stringify(name))
})
