import type { RouteFields } from '../../../../../catalog/file.ts'
import type { RouteAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { lazy } from '../../lazy.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState } from '../../parts/states.ts'

/** Loaded when it is first shown, as few visits of a route come to it. */
export const FieldsDiff = lazy({
  title: 'The comparison',
  load: async () => (await import('./fields-diff.ts')).FieldsDiff,
})

/** What publishing would change, in words and side by side. */
export function Changes({ known, fields }: { readonly known: RouteAnswer; readonly fields: RouteFields }) {
  const { draft, published } = known
  const before =
    published === null ? 'Not published' : `Published, version ${published.number ?? 'of the file'}`
  if (draft === null && published !== null)
    return html`<${EmptyState} title="No changes">
      The draft equals the live version. Changes you make are shown here.
    <//>`
  return html`<div class="stack stack-loose">
    <${Section} title="Summary">
      <${ChangeLines} changes=${draft?.changes ?? []} isNew=${published === null} />
    <//>
    <${Section} title="Side by side">
      <${FieldsDiff}
        before=${published?.fields ?? null}
        after=${fields}
        names=${[before, 'Draft']}
      />
    <//>
  </div>`
}

/** The lines of a difference. */
export function ChangeLines({
  changes,
  isNew,
}: {
  readonly changes: readonly string[]
  readonly isNew: boolean
}) {
  if (changes.length > 0)
    return html`<ul class="routes-changes">${changes.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`
  return html`<p class="quiet">
    ${isNew ? 'Never published: everything is new.' : 'Nothing that affects requests.'}
  </p>`
}
