import { html } from './html.ts'
import { LinkButton } from './parts/button.ts'
import { PageHead } from './parts/page-head.ts'
import { EmptyState } from './parts/states.ts'
import { pathOf } from './paths.ts'

export function NotFound({ workspace }: { readonly workspace: string }) {
  return html`<${PageHead} title="Nothing here" />
    <${EmptyState}
      title="The console has no such view, or not for your key"
      action=${html`<${LinkButton} href=${pathOf(workspace)}>Go to the overview<//>`}
    >
      <p>Check the address, or choose a view from the menu.</p>
    <//>`
}
