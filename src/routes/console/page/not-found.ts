import { html } from './html.ts'
import { LinkButton } from './parts/button.ts'
import { PageHead } from './parts/page-head.ts'
import { EmptyState } from './parts/states.ts'
import { pathOf } from './paths.ts'

export function NotFound({ workspace }: { readonly workspace: string }) {
  return html`<${PageHead} title="Page not found" />
    <${EmptyState}
      title="This page doesn’t exist, or your key can’t access it"
      action=${html`<${LinkButton} href=${pathOf(workspace)}>Go to the overview<//>`}
    >
      <p>Check the address, or pick a page from the menu.</p>
    <//>`
}
