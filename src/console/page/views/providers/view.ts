import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import type { ViewProps } from '../../view.ts'

const AllProviders = lazy({
  title: 'The providers',
  load: async () => (await import('./list.ts')).AllProviders,
})

const ProviderPage = lazy({
  title: 'The provider',
  style: ['overview', 'chart'],
  load: async () => (await import('./one-provider.ts')).ProviderPage,
})

/** The accounts at providers: those of a workspace, or of the platform; or one of them, and how it fares. */
export function ProvidersView(props: ViewProps) {
  const { workspace, path, session } = props
  const [name] = path
  if (name === undefined) return h(AllProviders, props)
  return h(ProviderPage, { key: name, workspace, name, isOperator: session.role === 'operator' })
}
