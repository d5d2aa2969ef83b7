import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Factories, route tables and the database schema are long by nature. */
const LONG = [
  'src/api/routes/**',
  'src/activities/account.ts',
  'src/activities/connect.ts',
  'src/embedded/supervise.ts',
  'src/storage/s3.ts',
];

/** Each argument of a call takes room on the stack, and the length of a list is seldom known to be small. */
const SPREAD_ARGUMENTS = {
  selector:
    'CallExpression[callee.property.name=/^(push|unshift|splice|concat|min|max|hypot|fromCharCode|fromCodePoint)$/] > SpreadElement',
  message: 'a call overflows the stack from about 120,000 arguments on: take one element at a time',
};

/** Biome formats; ESLint finds mistakes, above all promises that are not awaited, and functions that are too large. */
export default defineConfig(
  {
    ignores: [
      'dist/',
      'node_modules/',
      'coverage/',
      '.data/',
      'src/db/migrations/',
      'test/fixtures/',
      'test/histories/',
      'web/src/api/schema.d.ts',
    ],
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: ['error', 'always'],
      'no-console': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': [
        'error',
        { checksVoidReturn: { arguments: false, attributes: false } },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', ignoreRestSiblings: true }],
      // dependencies are plain objects of functions that do not use `this`
      '@typescript-eslint/unbound-method': 'off',
      // an interface may demand a promise where one implementation has nothing to wait for
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: "ImportDeclaration[source.value='drizzle-orm'] ImportSpecifier[imported.name=/^(not)?[iI]nArray$/]",
          message: 'inArray binds one parameter per value: use anyOf of src/db/driver/any-of.ts',
        },
        SPREAD_ARGUMENTS,
      ],
    },
  },
  { files: ['*.ts', 'web/**/*.ts', 'web/**/*.tsx'], rules: { 'no-restricted-syntax': ['error', SPREAD_ARGUMENTS] } },
  {
    files: ['src/**/*.ts', '*.ts'],
    rules: {
      complexity: ['error', 15],
      'max-params': ['error', 4],
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    // a component is its markup
    files: ['web/**/*.tsx', 'web/**/*.ts'],
    rules: { complexity: ['error', 15], 'max-lines': ['error', 400] },
  },
  { files: LONG, rules: { 'max-lines': 'off', 'max-lines-per-function': 'off' } },
  {
    // parts of JSON responses are read without types there
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: {
      'no-console': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/restrict-template-expressions': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
);
