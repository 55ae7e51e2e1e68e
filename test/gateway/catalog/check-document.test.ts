import t from 'tap'
import { CatalogFile } from '../../../src/gateway/catalog/file.ts'
import { checkShape, Issues, issueLines, withoutUnknownKeys } from '../../../src/gateway/catalog/issues.ts'
import { checkDocument } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile } from '../../support/catalog-file.ts'

type Bend = (file: BentFile) => void

/** What the shape says of a document that is looked at as a whole. */
function wholly(document: unknown) {
  const issues = new Issues()
  checkShape(CatalogFile, document, [], issues)
  return { lines: issueLines(issues.found), cleaned: withoutUnknownKeys(CatalogFile, document) }
}

const BENDS: Readonly<Record<string, Bend>> = {
  'nothing wrong': () => {},
  'an unknown key at the top': (file) => file.set('/colour', 'red'),
  'an unknown key in a part': (file) => file.set('/routes/voice/colour', 'red'),
  'an unknown key deep in a part': (file) => file.set('/workspaces/acme/apps/web/colour', 'red'),
  'an entry without a model': (file) => file.set('/routes/voice/entries/0/model', undefined),
  'a value of another type': (file) => file.set('/providers/openai/kind', 7),
  'a name that is none': (file) => file.set('/routes', { '-x': { workspace: 'acme' }, voice: 1 }),
  'a part that is null': (file) => file.set('/workspaces/acme', null),
  'a list that is no list': (file) => file.set('/providers', ['openai']),
  'a list that is null': (file) => file.set('/plans', null),
  'a head of another type': (file) => file.set('/deadline_seconds', 'soon'),
}

t.test('parts that are checked alone have the issues of the whole, and nothing else', async (t) => {
  for (const [what, bend] of Object.entries(BENDS)) {
    const file = new BentFile()
    bend(file)
    const issues = new Issues()
    const cleaned = checkDocument(file.document, issues)
    const expected = wholly(file.document)
    t.same(issueLines(issues.found), expected.lines, what)
    t.same(cleaned, expected.cleaned, `${what}: what is left`)
    t.equal(expected.lines.length === 0, what === 'nothing wrong', what)
  }
  for (const document of [null, 7, 'text', [], {}, { routes: {} }]) {
    const issues = new Issues()
    checkDocument(document, issues)
    t.same(issueLines(issues.found), wholly(document).lines, JSON.stringify(document))
  }
})
