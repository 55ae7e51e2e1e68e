import t from 'tap'
import {
  appFields,
  appForm,
  newNameIssue,
  purposeFields,
} from '../../../src/console/page/views/apps/forms.ts'
import type { AppFields } from '../../../src/gateway/catalog/file.ts'

const FIELDS: AppFields = {
  route: 'acme.voice',
  capability_routes: { audio_output: 'acme.speech' },
  purposes: { calls: 'acme.calls' },
}

t.test('an app that is loaded and saved leads where it did', async (t) => {
  t.same(appFields(appForm('web', FIELDS)), FIELDS)
  t.same(appFields(appForm('web', { route: 'acme.voice' })), { route: 'acme.voice' })
  const limited = { ...FIELDS, limits: { max_audio_bytes: 1_000 } }
  t.same(appFields(appForm('web', limited)), limited, 'what the form does not show stays')
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

t.test('a purpose that is edited or switched demands what it did', async (t) => {
  const require = { region: ['eu', 'ch'], retention: 'zero' as const, training: 'never' as const }
  const before = {
    purpose: 'calls',
    description: 'x',
    enabled: true,
    require,
    managed_by: 'console' as const,
  }
  t.same(purposeFields({ description: ' y ', enabled: false }, before), {
    description: 'y',
    enabled: false,
    require,
  })
  t.same(purposeFields({ description: '', enabled: true }, null), { description: '', enabled: true })
})
