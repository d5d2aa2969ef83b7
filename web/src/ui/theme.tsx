import { useState } from 'preact/hooks';

const KEY = 'theme';
type Theme = 'auto' | 'light' | 'dark';

const stored = (): Theme => {
  const value = localStorage.getItem(KEY);
  return value === 'light' || value === 'dark' ? value : 'auto';
};

/** The chosen theme, dark or light; by default the system's. */
export function applyTheme(theme = stored()): void {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  window.dispatchEvent(new Event('themechange'));
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState(stored);
  const choose = (value: Theme) => {
    if (value === 'auto') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
    setTheme(value);
    applyTheme(value);
  };
  return (
    <select
      class="input"
      aria-label="Colors"
      value={theme}
      onChange={(event) => choose(event.currentTarget.value as Theme)}
    >
      <option value="auto">System colors</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}
