import Theme from 'vitepress/theme-without-fonts';
import './style.css';

export default {
  extends: Theme,
  enhanceApp() {
    // the reference was at /docs: its links continue there
    if (typeof location !== 'undefined' && location.hash.startsWith('#/'))
      location.replace(`reference${location.hash}`);
  },
};
