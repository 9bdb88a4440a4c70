"""What training frameworks ask for beyond a dataset and a loader. No framework is imported before it is used."""
