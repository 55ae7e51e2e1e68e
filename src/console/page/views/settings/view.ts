import { useEffect, useState } from 'preact/hooks'
import type { DomainsAnswer, WebhookAnswer } from '../../../server/answers/settings.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Switch } from '../../components/choice.ts'
import type { DeliveriesAnswer } from '../../components/deliveries.ts'
import { Confirm } from '../../components/dialog.ts'
import { TextInput } from '../../components/field.ts'
import { PageHead, Section } from '../../components/page-head.ts'
import { EmptyState, ErrorNote, Loaded, Skeleton } from '../../components/states.ts'
import { toast } from '../../components/toasts.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { type Load, useAction, useLoad } from '../../load.ts'
import { apiPath } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { Webhook } from './webhook.ts'

/** Interval at which deliveries are reloaded. */
const LIVE_MS = 10_000

/** The settings of a workspace. They are drawn together, to avoid layout shifts. */
export function SettingsView({ workspace, query }: WorkspaceViewProps) {
  const root = apiPath`/workspaces/${workspace}`
  const about = useLoad((signal) => api.get<WorkspaceAnswer>(root, { signal }), [root])
  const domains = useLoad((signal) => api.get<DomainsAnswer>(`${root}/audio-url-domains`, { signal }), [root])
  const webhook = useLoad((signal) => api.get<WebhookAnswer>(`${root}/webhook`, { signal }), [root])
  const deliveries = useLoad(
    (signal) => api.get<DeliveriesAnswer>(`${root}/webhook/deliveries`, { signal }),
    [root],
    { everyMs: LIVE_MS },
  )
  const loading = [about, domains, webhook, deliveries].some(({ state }) => state === 'loading')
  const section = query.get('section') ?? ''
  useEffect(() => {
    // Links lead to one of the sections.
    if (!loading) document.getElementById(section)?.scrollIntoView({ block: 'start' })
  }, [section, loading])
  return [
    h(PageHead, { title: 'Settings', lead: `Settings for ${workspace}.` }),
    loading
      ? h(Skeleton, { rows: 12, label: 'The settings: loading' })
      : [
          h(Webhook, { workspace, load: webhook, deliveries }),
          h(Domains, { path: `${root}/audio-url-domains`, load: domains }),
          h(ContentSwitch, { workspace, load: about }),
        ],
  ]
}

const MEANING =
  'When on, admins of this workspace and operators can read job results here. When off, no one can; apps can still ' +
  'read their own through /v1. The playground always shows what you send yourself.'

/** Switch for showing the workspace's transcripts in the console. */
function ContentSwitch(props: { readonly workspace: string; readonly load: Load<WorkspaceAnswer> }) {
  const { workspace, load } = props
  const [dialog, setDialog] = useState(false)
  const change = async (shown: boolean) => {
    load.set(await api.put<WorkspaceAnswer>(apiPath`/workspaces/${workspace}/content`, { shown }))
    toast(shown ? 'Audio and transcripts are now shown' : 'Audio and transcripts are now hidden')
  }
  const off = useAction(() => change(false))
  return h(
    Section,
    { id: 'content', title: 'Content in the console' },
    h(Loaded<WorkspaceAnswer>, {
      load,
      what: 'The setting',
      rows: 2,
      render: ({ content_shown: shown }: WorkspaceAnswer) =>
        h(Switch, {
          label: 'Show audio and transcripts in the console',
          hint: MEANING,
          checked: shown,
          disabled: off.busy,
          onChange: (on: boolean) => (on ? setDialog(true) : off.run()),
        }),
    }),
    h(ErrorNote, { error: off.error, what: 'Not changed' }),
    dialog
      ? h(
          Confirm,
          {
            title: `Show audio and transcripts of ${workspace}?`,
            action: 'Show content',
            danger: false,
            onConfirm: () => change(true),
            onClose: () => setDialog(false),
          },
          h(
            'p',
            null,
            'Everyone who signs in with an admin key of this workspace, and every operator, will be able ' +
              'to read the transcripts of its jobs. The audit log records who turned this on.',
          ),
        )
      : null,
  )
}

/** Hosts that audio may be fetched from by its URL: the workspace's, and below them the platform's. */
function Domains({ path, load }: { readonly path: string; readonly load: Load<DomainsAnswer> }) {
  return h(
    Section,
    {
      id: 'domains',
      title: 'Allowed audio domains',
      lead: 'Hosts that audio.url and its redirects may use. *.example.com matches all subdomains.',
    },
    h(Loaded<DomainsAnswer>, {
      load,
      what: 'The allowed audio domains',
      rows: 4,
      render: (answer: DomainsAnswer) => h(List, { path, answer, onSaved: load.set }),
    }),
  )
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
  return h(
    'div',
    { class: 'stack' },
    domains.length === 0
      ? h(
          EmptyState,
          { title: 'No allowed domains' },
          platform.length === 0
            ? 'Add one to allow audio.url.'
            : 'Only the shared hosts below are allowed. Add one to allow more.',
        )
      : h(
          'ul',
          { class: 'domains' },
          domains.map((domain) =>
            h(
              'li',
              { class: 'domain', key: domain },
              h('span', { class: 'mono' }, domain),
              h(Button, {
                kind: 'quiet',
                small: true,
                icon: 'trash',
                label: `Remove ${domain}`,
                onClick: () => setRemoving(domain),
              }),
            ),
          ),
        ),
    h(Add, { domains, max, save }),
    platform.length === 0
      ? null
      : h(
          'p',
          { class: 'small quiet' },
          'Also allowed for every workspace: ',
          h('span', { class: 'mono' }, platform.join(', ')),
          '. Set by operators in the configuration.',
        ),
    removing === null
      ? null
      : h(
          Confirm,
          {
            title: `Remove the domain ${removing}?`,
            action: 'Remove domain',
            onConfirm: async () => {
              await save(domains.filter((domain) => domain !== removing))
              toast(`${removing} removed`)
            },
            onClose: () => setRemoving(null),
          },
          h(
            'p',
            null,
            'Requests and jobs whose audio.url uses it will be refused, including jobs already queued.',
          ),
        ),
  )
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
  return h(
    'form',
    { class: 'stack stack-tight', onSubmit: submit },
    h(
      'div',
      { class: 'row row-end domain-add' },
      h(TextInput, {
        label: 'Add domains',
        hint: `${domains.length} of ${max} used. Separate several with commas or spaces.`,
        error: over > 0 ? `${over} too many. The limit is ${max}.` : null,
        placeholder: 'cdn.example.com',
        mono: true,
        inputMode: 'url',
        width: 'medium',
        value: text,
        onInput: setText,
      }),
      h(Button, { type: 'submit', icon: 'plus', busy: add.busy, disabled: fresh === 0 || over > 0 }, 'Add'),
    ),
    h(ErrorNote, { error: add.error, what: 'Not added' }),
  )
}

/**
 * Domains out of what was typed or pasted: one to a line, or between commas or spaces. What is plainly more than a host
 * (scheme, path, port) is cut down to it, since that is what people copy from an address bar.
 */
export function domainsOf(typed: string): readonly string[] {
  const domains = typed.split(/[\s,;]+/).map((text) => {
    const [host = ''] = text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '').split(/[/?#]/, 1)
    return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
  })
  return [...new Set(domains.filter((domain) => domain !== ''))]
}

/** The list followed by the new ones, each once. */
export function withDomains(list: readonly string[], added: readonly string[]): readonly string[] {
  return [...new Set([...list, ...added])]
}
