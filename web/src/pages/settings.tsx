import { useState } from 'preact/hooks';
import { TextField } from '../ui/field.tsx';
import { Badge, Empty, Loading, Page, Problem } from '../ui/parts.tsx';
import { useInstallation } from './installation.ts';

/** Effective settings of the installation, read-only: the environment sets them. */
export function SettingsPage() {
  const settings = useInstallation();
  const [search, setSearch] = useState('');
  const rows = settings.data?.data.filter(({ name }) => name.toLowerCase().includes(search.trim().toLowerCase()));
  return (
    <Page title="Settings in force" intro="Set in the environment of the process; read here.">
      <section class="card" aria-label="Settings">
        <div class="filters" role="search">
          <TextField label="Search" type="search" value={search} set={setSearch} />
        </div>
        {settings.isPending && <Loading lines={8} />}
        {settings.error && (
          <div class="card-body">
            <Problem error={settings.error} retry={() => void settings.refetch()} />
          </div>
        )}
        {rows?.length === 0 && <Empty title="No setting of that name" />}
        {rows && rows.length > 0 && (
          <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead>
                <tr>
                  <th scope="col">Setting</th>
                  <th scope="col">Value</th>
                  <th scope="col">From</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.name}>
                    <td>
                      <code>{row.name}</code>
                    </td>
                    <td data-label="Value">
                      {row.is_secret ? <span class="quiet">{row.value}</span> : <code>{row.value}</code>}
                    </td>
                    <td data-label="From">
                      <Badge tone={row.is_default ? 'idle' : 'good'}>{row.is_default ? 'default' : 'set'}</Badge>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </Page>
  );
}
