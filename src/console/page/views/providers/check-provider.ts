import { useEffect, useState } from 'preact/hooks'
import type { ProviderAnswer, ProviderCheckAnswer } from '../../../server/answers/providers.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Dialog } from '../../components/dialog.ts'
import { Spinner } from '../../components/progress.ts'
import { ErrorNote, Note } from '../../components/states.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { useAction } from '../../load.ts'
import { apiPath } from '../../paths.ts'

/** Result of the check of a provider. */
type Checked = Pick<ProviderAnswer, 'name' | 'kind'> & {
  readonly base_url?: string | null
  readonly managed_by: ProviderAnswer['managed_by'] | null
}

/** Asks the provider for its models, which shows whether address and credential are right. */
export function CheckProvider(props: {
  /** API path of the workspace; empty for the platform. */
  readonly place: string
  readonly provider: Checked
  readonly onClose: () => void
}) {
  const { place, provider, onClose } = props
  const [answer, setAnswer] = useState<ProviderCheckAnswer | null>(null)
  const { run, busy, error } = useAction(async () => {
    setAnswer(null)
    setAnswer(await api.post<ProviderCheckAnswer>(place + apiPath`/providers/${provider.name}/check`))
  })
  useEffect(() => void run(), [])
  const footer = [
    h(Button, { icon: 'refresh', onClick: () => run(), busy }, 'Check again'),
    h(Button, { kind: 'primary', onClick: onClose }, 'Close'),
  ]
  return h(
    Dialog,
    { title: `Check ${provider.name}`, onClose, footer },
    h(
      'div',
      { class: 'stack', 'aria-live': 'polite' },
      busy ? h(Spinner, { label: `Connecting to ${provider.name}` }) : null,
      answer === null ? null : h(Result, { answer, provider }),
      h(ErrorNote, { error, what: 'Not checked' }),
    ),
  )
}

function Result({ answer, provider }: { readonly answer: ProviderCheckAnswer; readonly provider: Checked }) {
  const { ok, models, trouble } = answer
  if (!ok)
    return h(
      Note,
      { tone: 'bad' },
      h(
        'p',
        null,
        'Couldn’t connect to ',
        provider.base_url ?? provider.kind,
        ': ',
        trouble ?? 'no reason given',
        '.',
      ),
      h(
        'p',
        null,
        provider.managed_by === 'file'
          ? 'Check its API key and base URL in the configuration file.'
          : 'Check the API key and the base URL.',
      ),
    )
  return [
    h(Note, { tone: 'ok' }, 'Connected. ', plural(models.length, 'model'), ' available.'),
    models.length === 0
      ? null
      : h(
          'ul',
          { class: 'stack stack-tight' },
          models.map((model) => h('li', { class: 'mono small', key: model }, model)),
        ),
  ]
}
