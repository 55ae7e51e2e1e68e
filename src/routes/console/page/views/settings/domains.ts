import { useState } from 'preact/hooks'
import type { DomainsAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { type Load, useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Confirm } from '../../parts/dialog.ts'
import { TextInput } from '../../parts/field.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState, Fault, Loaded } from '../../parts/states.ts'
import { toast } from '../../parts/toasts.ts'
import { domainsOf, withDomains } from './domain-list.ts'

/** Hosts that audio may be fetched from by its URL: the workspace's, and below them the platform's. */
export function Domains({ path, load }: { readonly path: string; readonly load: Load<DomainsAnswer> }) {
  return html`<${Section}
    id="domains"
    title="Allowed audio domains"
    lead="Hosts that audio.url and its redirects may use. *.example.com matches all subdomains."
  >
    <${Loaded}
      load=${load}
      what="Not added"
      rows=${4}
      render=${(answer: DomainsAnswer) => html`<${List} path=${path} answer=${answer} onSaved=${load.set} />`}
    />
  <//>`
}

function List(props: {
  readonly path: string
  readonly answer: DomainsAnswer
  readonly onSaved: (answer: DomainsAnswer) => void
}) {
  const { path, answer, onSaved } = props
  const { domains, max_domains: max, platform_domains: platform } = answer
  const [removing, setRemoving] = useState<string | null>(null)
  const save = async (next: readonly string[]) =>
    onSaved(await api.put<DomainsAnswer>(path, { domains: next }))
  return html`<div class="stack">
    ${
      domains.length === 0
        ? html`<${EmptyState} title="No allowed domains">
            ${
              platform.length === 0
                ? 'Add one to allow audio.url.'
                : 'Only the shared hosts below are allowed. Add one to allow more.'
            }
          <//>`
        : html`<ul class="domains">
            ${domains.map(
              (domain) => html`<li class="domain" key=${domain}>
                <span class="mono">${domain}</span>
                <${Button}
                  kind="quiet"
                  small
                  icon="trash"
                  label=${`Remove ${domain}`}
                  onClick=${() => setRemoving(domain)}
                />
              </li>`,
            )}
          </ul>`
    }
    <${Add} domains=${domains} max=${max} save=${save} />
    ${
      platform.length === 0
        ? null
        : html`<p class="small quiet">
            Also allowed for every workspace: <span class="mono">${platform.join(', ')}</span>. Set by operators in
            the configuration.
          </p>`
    }
    ${
      removing === null
        ? null
        : html`<${Confirm}
            title=${`Remove the domain ${removing}?`}
            action="Remove domain"
            onConfirm=${async () => {
              await save(domains.filter((domain) => domain !== removing))
              toast(`${removing} removed`)
            }}
            onClose=${() => setRemoving(null)}
          >
            <p>Requests and jobs whose audio.url uses it will be refused, including jobs already queued.</p>
          <//>`
    }
  </div>`
}

function Add(props: {
  readonly domains: readonly string[]
  readonly max: number
  readonly save: (next: readonly string[]) => Promise<unknown>
}) {
  const { domains, max, save } = props
  const [text, setText] = useState('')
  const next = withDomains(domains, domainsOf(text))
  const over = next.length - max
  const fresh = next.length - domains.length
  const add = useAction(async () => {
    await save(next)
    toast(`${plural(fresh, 'domain')} added`)
    setText('')
  })
  const submit = (event: Event) => {
    event.preventDefault()
    if (fresh > 0 && over <= 0) add.run()
  }
  return html`<form class="stack stack-tight" onSubmit=${submit}>
    <div class="row row-end domain-add">
      <${TextInput}
        label="Add domains"
        hint=${`${domains.length} of ${max} used. Separate several with commas or spaces.`}
        error=${over > 0 ? `${over} too many. The limit is ${max}.` : null}
        placeholder="cdn.example.com"
        mono
        inputMode="url"
        width="medium"
        value=${text}
        onInput=${setText}
      />
      <${Button} type="submit" icon="plus" busy=${add.busy} disabled=${fresh === 0 || over > 0}>Add<//>
    </div>
    <${Fault} error=${add.error} what="Not added" />
  </form>`
}
