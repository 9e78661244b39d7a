"""What end users see: HTML from `templates/`, escaped throughout, without script and without any file from elsewhere."""
